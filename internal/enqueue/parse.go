package enqueue

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/whctl/internal/work"
)

// fields are the names that a line may have.
var fields = [...]string{
	"destination", "type", "subject", "tenant", "event_version", "event_id", "event_at", "delivery_id",
	"not_before", "not_after", "payload", "payload_base64",
}

const (
	fieldPayload = 10 // places in fields
	fieldBase64  = 11
)

// Parsed is a line made into an order.
type Parsed struct {
	work.Order
	IsJSON bool // the payload is known to be JSON
	OwnID  bool // the line gives the delivery id
}

// Parse makes an order of one line, a JSON object. Its error is the reason why it cannot
// be one, and quotes nothing of the payload.
func Parse(line []byte, payloadMax int64) (Parsed, error) {
	var p parser
	err := eachMember(line, p.member)
	if err == nil {
		err = p.finish(payloadMax)
	}
	return p.out, err
}

func (p *parser) finish(payloadMax int64) (err error) {
	o := &p.out
	switch payload, encoded := p.seen[fieldPayload], p.seen[fieldBase64]; {
	case payload && encoded:
		return errors.New("payload and payload_base64 exclude each other")
	case payload:
		o.Payload, o.IsJSON = p.payload, true
	case encoded:
		if o.Payload, err = decode(p.payload); err != nil {
			return err
		}
	default:
		return errors.New("payload is missing")
	}
	o.OwnID = o.DeliveryID != ""
	return Complete(&o.Order, payloadMax)
}

type parser struct {
	out     Parsed
	payload []byte            // as it stands in the line
	given   [len(fields)]bool // also as null
	seen    [len(fields)]bool
}

func (p *parser) member(name, value []byte) error {
	i := slices.Index(fields[:], string(name[1:len(name)-1]))
	if i < 0 {
		text, err := unquote(name)
		if err != nil {
			return fmt.Errorf("a field's name %w", err)
		}
		if i = slices.Index(fields[:], text); i < 0 {
			return unknownField(text)
		}
	}
	if p.given[i] {
		return fmt.Errorf("%s is given twice", fields[i])
	}
	p.given[i] = true
	if string(value) == "null" && i != fieldPayload {
		return nil
	}
	p.seen[i] = true
	if err := p.set(i, value); err != nil {
		return fmt.Errorf("%s: %w", fields[i], err)
	}
	return nil
}

func (p *parser) set(i int, value []byte) (err error) {
	o := &p.out
	switch fields[i] {
	case "destination":
		o.Destination, err = text(value)
	case "type":
		o.EventType, err = text(value)
	case "subject":
		o.Subject, err = text(value)
	case "tenant":
		o.Tenant, err = text(value)
	case "event_version":
		o.EventVersion, err = filled(value)
	case "event_id":
		o.EventID, err = text(value)
	case "event_at":
		o.EventAt, err = instant(value)
	case "delivery_id":
		o.DeliveryID, err = filled(value)
	case "not_before":
		o.NotBefore, err = instant(value)
	case "not_after":
		o.NotAfter, err = instant(value)
	default:
		p.payload = value
	}
	return err
}

// text is a string, or a number as it is written.
func text(value []byte) (string, error) {
	switch c := value[0]; {
	case c == '"':
		return unquote(value)
	case c == '-', c >= '0' && c <= '9':
		return string(value), nil
	}
	return "", errors.New("want a text or a number")
}

// filled is text for what stands for something else where it is absent: empty would be
// a slip.
func filled(value []byte) (string, error) {
	s, err := text(value)
	if err == nil && s == "" {
		err = errors.New("want a text that is not empty, or none at all")
	}
	return s, err
}

func instant(value []byte) (*time.Time, error) {
	if value[0] != '"' {
		return nil, errTime
	}
	s, err := unquote(value)
	if err != nil {
		return nil, errTime
	}
	return Instant(s)
}

// decode is the bytes of a payload_base64.
func decode(value []byte) ([]byte, error) {
	if value[0] != '"' {
		return nil, errors.New("payload_base64: want a text")
	}
	s, err := unquote(value)
	if err != nil {
		return nil, fmt.Errorf("payload_base64: %w", err)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("payload_base64: not valid base64 (RFC 4648, section 4, with padding)")
	}
	return b, nil
}

// unknownField names the field that was probably meant.
func unknownField(name string) error {
	if len(name) > work.MaxTenant {
		return errors.New("a field's name is unknown, and very long")
	}
	nearest, slips := "", 1+max(2, len(name)/3)
	for _, f := range fields {
		if n := distance(strings.ToLower(name), f); n < slips {
			nearest, slips = f, n
		}
	}
	if nearest == "" {
		return fmt.Errorf("unknown field \"%s\"", name)
	}
	return fmt.Errorf("unknown field \"%s\" (did you mean %s?)", name, nearest)
}

// distance counts the bytes that are added, left out or changed between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0]++
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, change)
		}
	}
	return row[len(b)]
}
