package httpsend

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

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
const ownHeaders = 10

// headerSet is the header of one request in the making.
type headerSet struct {
	h      http.Header
	values []string // one allocation for all of them
}

// set takes a canonical key, or one that is sent as it is written.
func (s *headerSet) set(key, value string) {
	s.values = append(s.values, value)
	s.h[key] = s.values[len(s.values)-1 : len(s.values) : len(s.values)]
}

// header is everything that is sent beside the body. A destination's own headers
// cannot take the place of whctl's, but for the content type, nor of the signature's.
func (s *Sender) header(r Request) (http.Header, *refusal) {
	out := &headerSet{h: make(http.Header, len(r.Headers)+ownHeaders), values: make([]string, 0, len(r.Headers)+ownHeaders)}
	for name, value := range r.Headers {
		key, why := work.HeaderKey(name)
		if why != "" {
			return nil, invalid("header %q %s", name, why)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, invalid("header %q has a value that cannot be sent", name)
		}
		if out.h[key] != nil {
			return nil, invalid("header %q is there twice", name)
		}
		out.set(key, value)
	}
	if out.h["Content-Type"] == nil {
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
	return out.h, s.sign(out, r)
}
