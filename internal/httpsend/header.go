package httpsend

import (
	"fmt"
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
		key, why := work.HeaderKey(name)
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

// ownHeaders is how many headers header sets at most, beside the destination's.
const ownHeaders = 12

// headerSet is the header of one request in the making, in the order in which it is sent.
type headerSet []field

type field struct{ key, value string }

// set takes a canonical key, or one that is sent as it is written.
func (s *headerSet) set(key, value string) { *s = append(*s, field{key, value}) }

func (s *headerSet) has(key string) bool {
	return slices.ContainsFunc(*s, func(f field) bool { return f.key == key })
}

// header is everything that is sent beside the body. A destination's own headers
// cannot take the place of whctl's, but for the content type, nor of the signature's.
func (s *Sender) header(r Request, t *target) (headerSet, *refusal) {
	set := make(headerSet, 0, len(r.Headers)+ownHeaders)
	out := &set
	for name, value := range r.Headers {
		key, why := work.HeaderKey(name)
		if why != "" {
			return nil, invalid("header %q %s", name, why)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, invalid("header %q has a value that cannot be sent", name)
		}
		if out.has(key) {
			return nil, invalid("header %q is there twice", name)
		}
		out.set(key, value)
	}
	slices.SortFunc(set, func(a, b field) int { return strings.Compare(a.key, b.key) })
	if !out.has("Content-Type") {
		out.set("Content-Type", "application/json")
	}
	if work.CheckDeliveryID(r.DeliveryID) != nil || !httpguts.ValidHeaderFieldValue(r.RedriveID) {
		return nil, invalid("the id of the delivery or of its redrive cannot be sent in a header")
	}
	out.set("User-Agent", s.userAgent)
	out.set("Idempotency-Key", r.DeliveryID)
	out.set("X-Webhook-Attempt-Id", r.AttemptID.String())
	out.set("X-Webhook-Attempt", strconv.Itoa(r.Attempt))
	out.set("X-Webhook-Generation", strconv.Itoa(r.Generation))
	if r.RedriveID != "" {
		out.set("X-Webhook-Redrive-Id", r.RedriveID)
	}
	out.set(standardwebhooks.HeaderWebhookID, r.DeliveryID)
	out.set("Content-Length", strconv.Itoa(len(r.Body)))
	if t.secret != "" {
		out.set("Proxy-Authorization", t.secret)
	}
	refused := s.sign(out, r)
	return set, refused
}

// appendHead writes the head of a request. All of it was looked at before: no value
// breaks out of its line.
func (s headerSet) appendHead(b []byte, t *target) []byte {
	b = append(b, t.opening...)
	for _, f := range s {
		b = append(append(append(b, f.key...), ": "...), textproto.TrimString(f.value)...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
