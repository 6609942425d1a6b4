package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// bodyTime is RFC 3339 in UTC with six digits: the resolution of PostgreSQL's
// timestamps, always written out, so that an instant has one spelling.
const bodyTime = "2006-01-02T15:04:05.000000Z"

// Bytes is the body of the request for e. The same envelope gives the same bytes,
// on every attempt and with every version of this program: signatures and receivers'
// own fingerprints depend on it. BodyRaw is the payload itself (not a copy).
//
// It fails on a payload that is no JSON, on a time outside the years 0 to 9999 and on
// a kind that was left unset; the error quotes nothing of the payload. The payload of an
// envelope whose own kind is BodyEnvelope was checked when that was written, which only
// the enqueue does, and is not looked at again.
func (e Envelope) Bytes(kind BodyKind) ([]byte, error) {
	switch kind {
	case BodyRaw:
		return e.Payload, nil
	case BodyEnvelope:
		return e.wrapped()
	}
	return nil, fmt.Errorf("body of delivery %s: unknown kind %q", e.DeliveryID, string(kind))
}

func (e Envelope) wrapped() ([]byte, error) {
	if e.Body != BodyEnvelope && (!json.Valid(e.Payload) || !utf8.Valid(e.Payload)) { // json.Valid lets bytes through that are no UTF-8
		return nil, fmt.Errorf("body of delivery %s: %w", e.DeliveryID, errNotJSON)
	}
	at := e.EventAt.UTC()
	if y := at.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("body of delivery %s: the event's time is outside the years 0 to 9999", e.DeliveryID)
	}
	fields := [...]struct{ key, text string }{
		{`{"eventId":`, e.EventID},
		{`,"deliveryId":`, e.DeliveryID},
		{`,"type":`, e.EventType},
		{`,"version":`, e.EventVersion},
		{`,"subject":`, e.Subject},
		{`,"tenant":`, e.Tenant},
	}
	size := len(e.Payload) + len(bodyTime) + 32
	for _, f := range fields {
		size += len(f.key) + len(f.text) + 8
	}
	b := make([]byte, 0, size)
	for _, f := range fields {
		b = appendJSONText(append(b, f.key...), f.text)
	}
	b = append(b, `,"occurredAt":"`...)
	b = at.AppendFormat(b, bodyTime)
	b = append(b, `","data":`...)
	b = append(b, e.Payload...)
	return append(b, '}'), nil
}

var errNotJSON = errors.New("the payload is no JSON; only a raw body can carry it")

// appendJSONText appends s as a JSON string. It is written out here because the
// encoding in the standard library has changed between releases of Go (\b and \f in
// 1.22), and these bytes may not. Only what JSON demands is escaped; bytes that are no
// UTF-8 become U+FFFD.
func appendJSONText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		if plain := plainText(s[i:]); plain > 0 {
			b = append(b, s[i:i+plain]...)
			i += plain
			continue
		}
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			r, size := utf8.DecodeRuneInString(s[i:]) // U+FFFD for what is no UTF-8
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
	}
	return append(b, '"')
}

// plainText is how many bytes at the beginning of s stand for themselves.
func plainText(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}
