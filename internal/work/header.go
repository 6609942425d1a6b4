package work

import (
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// HeaderKey is the canonical form of a header's name that a destination or a signature
// may set. Otherwise why says what keeps it from that: it is no name, whctl sets the
// header itself, or the connection does.
func HeaderKey(name string) (key, why string) {
	if !httpguts.ValidHeaderFieldName(name) {
		return "", "is no header name"
	}
	key = textproto.CanonicalMIMEHeaderKey(name)
	switch key {
	case "User-Agent", "Idempotency-Key", "X-Idempotency-Key":
		return "", "is whctl's own"
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect":
		return "", "belongs to the connection"
	}
	switch {
	case strings.HasPrefix(key, "Webhook-"), strings.HasPrefix(key, "X-Webhook-"):
		return "", "is whctl's own"
	case strings.HasPrefix(key, "Proxy-"):
		return "", "belongs to the connection"
	}
	return key, ""
}
