package work

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestBodyOfEnvelope(t *testing.T) {
	e := Envelope{
		DeliveryID: "d-1", EventID: `e"1`, EventType: "a<b>&c", EventVersion: "v\\2", Subject: "line\nbreak\u2028é", Tenant: "",
		EventAt: time.Date(2026, 3, 1, 12, 0, 0, 1_500, time.FixedZone("x", 2*3600)),
		Payload: []byte("{\"b\":1.0,  \"a\":12345678901234567890,\"a\":2,\"u\":\"\\u00e9é\"}\n"),
	}
	got, err := e.Bytes(BodyEnvelope)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"eventId":"e\"1","deliveryId":"d-1","type":"a<b>&c","version":"v\\2","subject":"line\u000abreak` + "\u2028" + `é",` +
		`"tenant":"","occurredAt":"2026-03-01T10:00:00.000001Z","data":` + string(e.Payload) + `}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid(got) {
		t.Error("no JSON")
	}
}

func TestBodyRawIsThePayload(t *testing.T) {
	for _, payload := range [][]byte{nil, {}, {0, 0xff}, []byte("{\"a\": 1}\n")} {
		got, err := Envelope{Payload: payload}.Bytes(BodyRaw)
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%q became %q (%v)", payload, got, err)
		}
	}
}

func TestBodyThatCannotBeMade(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		e    Envelope
		kind BodyKind
	}{
		"no JSON":        {Envelope{EventAt: at, Payload: []byte(`{"secret":`)}, BodyEnvelope},
		"empty":          {Envelope{EventAt: at}, BodyEnvelope},
		"two values":     {Envelope{EventAt: at, Payload: []byte(`1 "secret"`)}, BodyEnvelope},
		"byte-order":     {Envelope{EventAt: at, Payload: []byte("\ufeff{}")}, BodyEnvelope},
		"year 10000":     {Envelope{EventAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Payload: []byte(`{}`)}, BodyEnvelope},
		"kind left open": {Envelope{EventAt: at, Payload: []byte(`{}`)}, BodyUnset},
	} {
		got, err := c.e.Bytes(c.kind)
		if err == nil {
			t.Errorf("%s: got %q", name, got)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes the payload: %v", name, err)
		}
	}
}

// What the enqueue has checked is not read again: the cost of every send would grow with
// the payload. A kind that only the worker's policy gave says nothing of a check.
func TestBodyIsCheckedOnce(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	checked := Envelope{EventAt: at, Body: BodyEnvelope, Payload: []byte(`nothing`)}
	if _, err := checked.Bytes(BodyEnvelope); err != nil {
		t.Errorf("checked again: %v", err)
	}
	for _, kind := range []BodyKind{BodyUnset, BodyRaw} {
		e := Envelope{EventAt: at, Body: kind, Payload: []byte(`nothing`)}
		if _, err := e.Bytes(BodyEnvelope); err == nil {
			t.Errorf("kind %q: sent unchecked", kind)
		}
	}
}

// FuzzBody: whatever the texts are, the body is JSON with the same texts in it, the
// payload's bytes stand at its end untouched, and it is the same each time.
func FuzzBody(f *testing.F) {
	f.Add("id", "a\x00b", "<é>\u2028", "\xff\xfe", `{"b":1.0,"b":2}`, int64(0))
	f.Add("", "\"\\/", "\x7f\u0085", "\xed\xa0\x80", ` [1e400] `, int64(1_700_000_000_123_456_789))
	f.Fuzz(func(t *testing.T, id, subject, tenant, version, payload string, ns int64) {
		e := Envelope{
			DeliveryID: id, EventID: id, EventType: version, EventVersion: version, Subject: subject, Tenant: tenant,
			EventAt: time.Unix(0, ns), Payload: []byte(payload),
		}
		b, err := e.Bytes(BodyEnvelope)
		if (err == nil) != json.Valid(e.Payload) {
			t.Fatalf("payload %q: %v", payload, err)
		}
		if err != nil {
			return
		}
		var got struct {
			EventID, DeliveryID, Type, Version, Subject, Tenant, OccurredAt *string
			Data                                                            json.RawMessage
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		for _, p := range []struct {
			got  *string
			want string
		}{{got.EventID, id}, {got.DeliveryID, id}, {got.Type, version}, {got.Version, version}, {got.Subject, subject}, {got.Tenant, tenant}} {
			if p.got == nil || *p.got != valid(p.want) {
				t.Errorf("%q came back as %v in %q", p.want, p.got, b)
			}
		}
		if at, err := time.Parse(time.RFC3339Nano, *got.OccurredAt); err != nil || !at.Equal(e.EventAt.Truncate(time.Microsecond)) {
			t.Errorf("time %v became %q", e.EventAt, *got.OccurredAt)
		}
		if !bytes.HasSuffix(b, []byte(`"data":`+payload+`}`)) {
			t.Errorf("payload %q was touched: %q", payload, b)
		}
		if again, err := e.Bytes(BodyEnvelope); err != nil || !bytes.Equal(again, b) {
			t.Errorf("second time %q (%v), first %q", again, err, b)
		}
	})
}

// valid replaces each byte that is no UTF-8, as the body must.
func valid(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		b.WriteRune(r)
		i += size
	}
	return b.String()
}
