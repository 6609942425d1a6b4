package enqueue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/whctl/internal/work"
)

// The scanner and the library agree on what is JSON.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"\u00e9\n"],"b":{}} `, `[`, `[1,]`, `{"a":1,}`, `{,}`, `01`, `1.`, `.5`, `-`, `1e`, `"\x"`, "\"\x01\"", `"\u12g4"`,
		`tru`, `nulll`, ` `, ``, `[[]]`, `{"a"}`, `{"a":}`, `[1 2]`, `"a" "b"`, `1,2`, `{"a":1 "b":2}`, `{1:2}`, `[}`, `"\u00`, `-01`, `1E5`, "\"\x7f\"", "\"\\u\x10\x11\x12\x13\"", `"\uABCD\uabcd"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := isJSON(text), json.Valid(text) && utf8.Valid(text); got != want {
			t.Errorf("%q: %v, the library says %v", text, got, want)
		}
		if !utf8.Valid(text) {
			return
		}
		var got, want []string
		err := eachMember(text, func(name, value []byte) error {
			got = append(got, string(name)+":"+string(value))
			return nil
		})
		var object map[string]json.RawMessage
		if isObject := json.Unmarshal(text, &object) == nil && object != nil; isObject != (err == nil) {
			t.Fatalf("%q: %v, the library says object: %v", text, err, isObject)
		}
		for name, value := range object {
			want = append(want, name+string(value))
		}
		if err == nil && len(got) < len(want) {
			t.Errorf("%q: members %q, the library finds %q", text, got, want)
		}
	})
}

// The seeds of the fuzzer, and what it looks for: no panic, a payload that stands in the
// line, an order within the limits, a reason without the payload.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"destination":"r","type":"t","subject":"s","payload":{"b":1.0,  "a":12345678901234567890,"a":2,"u":"\u00e9é"}}`,
		`{"destination":"r","type":"t","payload_base64":"AAEC","event_at":"2026-01-31T09:30:00+02:00","event_version":1.50}`,
		` { "type" : "\ud83d\ude00" , "destination":"r", "payload" : [ ] , "tenant":null, "delivery_id":"x" } `,
		`{"payload":"}","destination":"r\\","type":"\"","evnt_id":1}`,
		"{\"a\":\"\xff\"}", `{"":{}}`, `{`, ``, `[1]`, `{"payload":1,"payload":2}`, `{"subject":"\ud800\udc0"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		o, err := Parse(line, limit)
		if !bytes.Equal(line, before) {
			t.Fatal("the line was changed")
		}
		if err != nil {
			return
		}
		if o.IsJSON && !bytes.Contains(line, o.Payload) || o.IsJSON && !json.Valid(o.Payload) {
			t.Errorf("payload %q of %q", o.Payload, line)
		}
		if o.Payload == nil || len(o.Payload) > limit {
			t.Errorf("payload of %d bytes", len(o.Payload))
		}
		for _, text := range []string{o.Destination, o.Tenant, o.Subject, o.EventType, o.EventVersion, o.EventID} {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > work.MaxSubject {
				t.Errorf("text %q of %q", text, line)
			}
		}
		if work.CheckDeliveryID(o.DeliveryID) != nil || work.CheckDestinationName(o.Destination) != nil || o.EventType == "" || o.EventVersion == "" {
			t.Errorf("order %+v of %q", o.Order, line)
		}
		// A second reading by the library agrees on the texts.
		var other struct{ Subject, Tenant any }
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&other); err != nil || o.Subject != plain(other.Subject) || o.Tenant != plain(other.Tenant) {
			t.Errorf("%q: subject %q tenant %q, the library reads %v %v, %v", line, o.Subject, o.Tenant, other.Subject, other.Tenant, err)
		}
	})
}

func plain(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
