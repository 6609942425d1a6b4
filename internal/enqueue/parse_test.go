package enqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

const limit = 1 << 10

// parse makes an order of a line that has a destination, a type and, unless it has one,
// a payload besides what is given.
func parse(t *testing.T, members string) (Parsed, error) {
	t.Helper()
	line := `{"destination":"r","type":"t"`
	if !strings.Contains(members, "payload") {
		line += `,"payload":{}`
	}
	if members != "" {
		line += "," + members
	}
	return Parse([]byte(line+"}"), limit)
}

func TestTheFieldsOfALine(t *testing.T) {
	line := `{"destination":"carrier-b","type":"hold.expired","subject":"R-1","tenant":"acme","event_version":"7","event_id":"e1",
		"event_at":"2026-01-31T10:00:00.123456789+01:00","delivery_id":"d:1","not_before":"2026-02-01T00:00:00Z",
		"not_after":"2026-02-02T00:00:00Z","payload":[1]}`
	o, err := Parse([]byte(strings.ReplaceAll(line, "\n", " ")), limit)
	if err != nil {
		t.Fatal(err)
	}
	at := func(t *time.Time) string { return t.Format(time.RFC3339Nano) }
	got := strings.Join([]string{
		o.Destination, o.EventType, o.Subject, o.Tenant, o.EventVersion, o.EventID, at(o.EventAt), o.DeliveryID, at(o.NotBefore),
		at(o.NotAfter), string(o.Payload), fmt.Sprint(o.IsJSON, o.OwnID),
	}, " ")
	want := "carrier-b hold.expired R-1 acme 7 e1 2026-01-31T09:00:00.123456789Z d:1 2026-02-01T00:00:00Z 2026-02-02T00:00:00Z [1] true true"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAbsentAndNullAreTheSame(t *testing.T) {
	for _, members := range []string{
		"",
		`"subject":null,"tenant":null,"event_version":null,"event_id":null,"event_at":null,"delivery_id":null,"not_before":null,"not_after":null,"payload_base64":null`,
	} {
		o, err := parse(t, strings.ReplaceAll(members, `"payload_base64":null`, `"payload_base64":null,"payload":{}`))
		if err != nil {
			t.Fatalf("%s: %v", members, err)
		}
		if o.Subject != "" || o.Tenant != "" || o.EventID != "" || o.EventAt != nil || o.NotBefore != nil || o.NotAfter != nil {
			t.Errorf("%s: %+v", members, o)
		}
		// sha256 of {}
		if o.EventVersion != "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
			t.Errorf("%s: version %q, want the hash of the payload", members, o.EventVersion)
		}
		if work.CheckDeliveryID(o.DeliveryID) != nil || len(o.DeliveryID) != 36 || o.DeliveryID[14] != '7' || o.OwnID {
			t.Errorf("%s: delivery id %q, want a UUID of version 7", members, o.DeliveryID)
		}
	}
}

// Numbers are ids as well, and an id of 20 digits must not become a float.
func TestNumbersBecomeTheirText(t *testing.T) {
	for _, number := range []string{"7", "-1", "12345678901234567890", "1.0", "1e3", "0.10"} {
		for _, field := range []string{"subject", "tenant", "event_version", "event_id"} {
			o, err := parse(t, `"`+field+`": `+number+` `)
			if err != nil {
				t.Fatalf("%s: %s: %v", field, number, err)
			}
			got := map[string]string{"subject": o.Subject, "tenant": o.Tenant, "event_version": o.EventVersion, "event_id": o.EventID}[field]
			if got != number {
				t.Errorf("%s: %s became %q", field, number, got)
			}
		}
	}
}

// What stands in the line is what goes out: order, doubled names, long numbers, 1.0,
// escapes, blanks within. Blanks around the value belong to the line.
func TestThePayloadIsKeptByteForByte(t *testing.T) {
	for _, payload := range []string{
		`{"b":1.0,  "a":12345678901234567890,"a":2,"u":"\u00e9é"}`, `null`, `true`, `"text \"quoted\" \\"`, `0`, `-0.0`, `1E+2`, `[]`, `{}`,
		`[ 1 ,2 ]`, `"\ud83d\ude00"`, `"\ud800"`, `"\u0000"`, `{"a":"}{][,:\\"}`, `""`, `[[[[]]],{"a":{}}]`,
	} {
		for _, line := range []string{
			`{"destination":"r","type":"t","payload":%s}`, `{"payload" : ` + "\t" + `%s ,"destination":"r","type":"t"}`,
			` { "destination" : "r" , "payload":%s` + "\r" + `, "type":"t" } `,
		} {
			o, err := Parse([]byte(strings.Replace(line, "%s", payload, 1)), limit)
			if err != nil || string(o.Payload) != payload || !o.IsJSON {
				t.Errorf("%s became %s, %v", payload, o.Payload, err)
			}
		}
	}
}

func TestPayloadBase64(t *testing.T) {
	for encoded, want := range map[string]string{"": "", "AAEC": "\x00\x01\x02", "+/+/": "\xfb\xff\xbf", `\u0041\/8=`: "\x03\xff", "eyJhIjoxfQo=": "{\"a\":1}\n"} {
		o, err := parse(t, `"payload_base64":"`+encoded+`"`)
		if err != nil || string(o.Payload) != want || o.Payload == nil || o.IsJSON {
			t.Errorf("%s became %q (nil: %v), %v", encoded, o.Payload, o.Payload == nil, err)
		}
	}
}

func TestLinesThatCannotBeTaken(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ members, reason string }{
		{`"payload":{},"payload_base64":""`, "payload and payload_base64 exclude each other"},
		{`"payload_base64":null`, "payload is missing"},
		{`"payload_base64":"A"`, "payload_base64: not valid base64 (RFC 4648, section 4, with padding)"},
		{`"payload_base64":"AA_-"`, "payload_base64: not valid base64 (RFC 4648, section 4, with padding)"},
		{`"payload_base64":1`, "payload_base64: want a text"},
		{`"payload":"` + long(limit) + `"`, "payload of 1026 bytes is larger than the 1024 allowed (enqueue.payload_max)"},
		{`"subject":true`, "subject: want a text or a number"},
		{`"subject":{"a":1}`, "subject: want a text or a number"},
		{`"subject":[]`, "subject: want a text or a number"},
		{`"subject":"a","subject":"b"`, "subject is given twice"},
		{`"subject":"a","sub\u006aect":"b"`, "subject is given twice"},
		{`"subject":null,"subject":"b"`, "subject is given twice"},
		{`"subject":"\u0000"`, "subject: holds a NUL, which the database cannot keep"},
		{`"subject":"a\ud800b"`, "subject: holds half of a surrogate pair, which is no character"},
		{`"subject":"\udc00\ud800"`, "subject: holds half of a surrogate pair, which is no character"},
		{`"subject":"\ud800\u0041"`, "subject: holds half of a surrogate pair, which is no character"},
		{`"subject":"` + long(work.MaxSubject+1) + `"`, "subject: 1025 bytes are more than the 1024 allowed"},
		{`"tenant":"` + long(work.MaxTenant+1) + `"`, "tenant: 257 bytes are more than the 256 allowed"},
		{`"event_id":"` + long(work.MaxEventID+1) + `"`, "event_id: 513 bytes are more than the 512 allowed"},
		{`"event_version":"` + long(work.MaxEventVersion+1) + `"`, "event_version: 257 bytes are more than the 256 allowed"},
		{`"event_version":""`, "event_version: want a text that is not empty, or none at all"},
		{`"delivery_id":""`, "delivery_id: want a text that is not empty, or none at all"},
		{`"delivery_id":"a b"`, "delivery_id: want 1 to 128 of A-Z a-z 0-9 . _ : -"},
		{`"delivery_id":"` + long(work.MaxDeliveryID+1) + `"`, "delivery_id: want 1 to 128 of A-Z a-z 0-9 . _ : -"},
		{`"not_after":"2026-01-01T00:00:00Z","not_before":"2026-01-01T00:00:01Z"`, "not_after is before not_before: it could never be sent"},
		{`"evnt_id":"x"`, `unknown field "evnt_id" (did you mean event_id?)`},
		{`"Subject":"x"`, `unknown field "Subject" (did you mean subject?)`},
		{`"not-after":"x"`, `unknown field "not-after" (did you mean not_after?)`},
		{`"payloadbase64":"x"`, `unknown field "payloadbase64" (did you mean payload_base64?)`},
		{`"colour":"x"`, `unknown field "colour"`},
		{`"":"x"`, `unknown field ""`},
		{`"` + long(300) + `":1`, "a field's name is unknown, and very long"},
		{`"\ud800":1`, "a field's name holds half of a surrogate pair, which is no character"},
	} {
		if _, err := parse(t, c.members); err == nil || err.Error() != c.reason {
			t.Errorf("%.80s\n got %v\nwant %s", c.members, err, c.reason)
		}
	}
}

func TestTimesAreInstants(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31T09:30:00Z":             "2026-01-31T09:30:00Z",
		"2026-01-31T09:30:00.5+02:00":      "2026-01-31T07:30:00.5Z",
		"0001-01-01T00:00:00Z":             "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59.999999999Z":   "9999-12-31T23:59:59.999999999Z",
		"10000-01-01T00:00:00Z":            "",
		"0000-12-31T23:59:59Z":             "",
		"0001-01-01T00:00:00+01:00":        "", // a year before, in UTC
		"9999-12-31T23:59:59-00:01":        "",
		"2026-01-31T09:30:00":              "", // where?
		"2026-01-31 09:30:00Z":             "",
		"2026-01-31":                       "",
		"2026-02-30T00:00:00Z":             "",
		"2026-01-31T24:00:00Z":             "",
		"2026-01-31T9:30:00Z":              "",
		"2026-01-31T09:30:00+25:00":        "",
		"infinity":                         "",
		"-infinity":                        "",
		"now":                              "",
		"2026-01-31T09:30:00,5Z":           "",
		"":                                 "",
		"1769851800":                       "",
		"-0001-01-01T00:00:00Z":            "",
		"294276-12-31T00:00:00Z":           "",
		"2026-01-31T09:30:00Z; DROP TABLE": "",
	} {
		for _, field := range []string{"event_at", "not_before", "not_after"} {
			o, err := parse(t, `"`+field+`":"`+text+`"`)
			got := map[string]*time.Time{"event_at": o.EventAt, "not_before": o.NotBefore, "not_after": o.NotAfter}[field]
			switch {
			case want == "" && (err == nil || !strings.HasPrefix(err.Error(), field+": want a ")):
				t.Errorf("%s %q: %v, want a refusal", field, text, err)
			case want != "" && (err != nil || got.Format(time.RFC3339Nano) != want):
				t.Errorf("%s %q: %v, %v; want %s", field, text, got, err, want)
			}
		}
	}
	if _, err := parse(t, `"event_at":1769851800`); err == nil {
		t.Error("a number is taken as a time")
	}
}

func TestWhatIsNoOrderAtAll(t *testing.T) {
	for _, c := range []struct{ line, reason string }{
		{`{"type":"t","payload":1}`, "destination is missing"},
		{`{"destination":"r","payload":1}`, "type is missing"},
		{`{"destination":"r","type":"","payload":1}`, "type is missing"},
		{`{"destination":"r r","type":"t","payload":1}`, "destination: want a name of 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"},
		{`{"destination":"r","type":"` + strings.Repeat("x", 257) + `","payload":1}`, "type: 257 bytes are more than the 256 allowed"},
		{`{"destination":"r","type":"t"}`, "payload is missing"},
		{`{}`, "payload is missing"},
		{`[]`, "not a JSON object"},
		{`"x"`, "not a JSON object"},
		{`1`, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`{"destination":"r","type":"t","payload":{"secret":tru}}`, "not valid JSON at byte 54"},
		{`{"destination":"r","type":"t","payload":1`, "not valid JSON: it ends too early"},
		{`{"destination":"r","type":"t","payload":1}}`, "not valid JSON at byte 43"},
		{`{"destination":"r","type":"t","payload":"` + "\xff" + `"}`, "not valid UTF-8"},
		{`{"destination":"r","type":"t","payload":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "not valid JSON at byte 10040"},
		{"\x00", "not valid JSON at byte 1"},
	} {
		if _, err := Parse([]byte(c.line), limit); err == nil || err.Error() != c.reason {
			t.Errorf("%.80q\n got %v\nwant %s", c.line, err, c.reason)
		}
	}
}
