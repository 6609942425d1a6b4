package httpsend

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http/httpguts"

	"example.com/whctl/internal/work"
)

// CheckHeaders says which of the names cannot be a destination's own headers, or nil:
// names that are none, those that whctl or the protocol sets, and doublets. Content-Type
// may be set. The error wraps work.ErrConfig.
func CheckHeaders(names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		key, why := headerKey(name)
		if why == "" && seen[key] {
			why = "is there twice"
		}
		if why != "" {
			return fmt.Errorf("%w: header %q %s", work.ErrConfig, name, why)
		}
		seen[key] = true
	}
	return nil
}

// headerKey is the canonical form of a header's name; why is "" if it may be sent.
func headerKey(name string) (key, why string) {
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

// ownHeaders is how many headers header sets at most, beside the destination's.
const ownHeaders = 10

// header is everything that is sent beside the body. A destination's own headers
// cannot take the place of whctl's, but for the content type.
func (s *Sender) header(r Request) (http.Header, *refusal) {
	h := make(http.Header, len(r.Headers)+ownHeaders)
	values := make([]string, 0, len(r.Headers)+ownHeaders) // one allocation for all
	set := func(key, value string) {
		values = append(values, value)
		h[key] = values[len(values)-1 : len(values) : len(values)]
	}
	for name, value := range r.Headers {
		key, why := headerKey(name)
		if why != "" {
			return nil, invalid("header %q %s", name, why)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, invalid("header %q has a value that cannot be sent", name)
		}
		if h[key] != nil {
			return nil, invalid("header %q is there twice", name)
		}
		set(key, value)
	}
	if h["Content-Type"] == nil {
		set("Content-Type", "application/json")
	}
	if work.CheckDeliveryID(r.DeliveryID) != nil || !httpguts.ValidHeaderFieldValue(r.RedriveID) {
		return nil, invalid("the id of the delivery or of its redrive cannot be sent in a header")
	}
	now := s.now()
	set("User-Agent", s.userAgent)
	set("Idempotency-Key", r.DeliveryID)
	set("X-Webhook-Attempt-Id", r.AttemptID.String())
	set("X-Webhook-Attempt", strconv.Itoa(r.Attempt))
	set("X-Webhook-Generation", strconv.Itoa(r.Generation))
	if r.RedriveID != "" {
		set("X-Webhook-Redrive-Id", r.RedriveID)
	}
	set(standardwebhooks.HeaderWebhookID, r.DeliveryID)
	set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if len(r.Keys) > 0 {
		signature, refused := s.sign(r, now)
		if refused != nil {
			return nil, refused
		}
		set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return h, nil
}
