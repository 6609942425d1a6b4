package enqueue

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

var errTime = errors.New("want a time as of RFC 3339 with its zone, such as 2026-01-31T09:30:00Z")

// Instant reads a time as of RFC 3339. Without a zone it is refused: it would be another
// instant on another machine. So are years that the table does not take.
func Instant(s string) (*time.Time, error) {
	var t time.Time
	// The library is lenient about hours of one digit and commas.
	if err := t.UnmarshalText([]byte(s)); err != nil || s[13] != ':' || strings.Contains(s, ",") {
		return nil, errTime
	}
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return nil, errors.New("want a year from 0001 to 9999 in UTC")
	}
	return &t, nil
}

// Complete checks an order against the limits of the work table and fills in what was
// not given: its delivery id, and as version the hash of its payload. Its error is the
// reason for a refusal.
func Complete(o *work.Order, payloadMax int64) error {
	if o.Destination == "" {
		return errors.New("destination is missing")
	}
	if o.EventType == "" {
		return errors.New("type is missing")
	}
	if err := work.CheckDestinationName(o.Destination); err != nil {
		return errors.New("destination: want a name of 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter or digit")
	}
	for _, t := range []struct {
		field, text string
		limit       int
	}{
		{"type", o.EventType, work.MaxEventType},
		{"subject", o.Subject, work.MaxSubject},
		{"tenant", o.Tenant, work.MaxTenant},
		{"event_version", o.EventVersion, work.MaxEventVersion},
		{"event_id", o.EventID, work.MaxEventID},
	} {
		if err := checkText(t.text, t.limit); err != nil {
			return fmt.Errorf("%s: %w", t.field, err)
		}
	}
	if n := int64(len(o.Payload)); n > payloadMax {
		return tooLarge(n, payloadMax)
	}
	if o.NotAfter != nil && o.NotBefore != nil && o.NotAfter.Before(*o.NotBefore) {
		return errors.New("not_after is before not_before: it could never be sent")
	}
	return fill(o)
}

func fill(o *work.Order) error {
	if o.EventVersion == "" {
		sum := sha256.Sum256(o.Payload)
		o.EventVersion = hex.EncodeToString(sum[:])
	}
	if o.DeliveryID != "" {
		if work.CheckDeliveryID(o.DeliveryID) != nil {
			return fmt.Errorf("delivery_id: want 1 to %d of A-Z a-z 0-9 . _ : -", work.MaxDeliveryID)
		}
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make a delivery id: %w", err)
	}
	o.DeliveryID = id.String()
	return nil
}

func checkText(text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("%d bytes are more than the %d allowed", len(text), limit)
	case strings.IndexByte(text, 0) >= 0:
		return errors.New("holds a NUL, which the database cannot keep")
	case !utf8.ValidString(text):
		return errors.New("not valid UTF-8")
	}
	return nil
}

func tooLarge(n, limit int64) error {
	return fmt.Errorf("payload of %d bytes is larger than the %d allowed (enqueue.payload_max)", n, limit)
}
