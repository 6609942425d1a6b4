package archive

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/whctl/internal/work"
)

// The words of the contract; programs that read archives hold on to them.
func TestRow(t *testing.T) {
	a := finished(7)
	a.EventAt = noon.In(time.FixedZone("", 7200))
	a.Payload = []byte("{\"b\":1.0,  \"a\":\"<&>\\u00e9é\"}\n")
	got, err := appendRow(nil, &a)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"delivery_id":"0199c0de-0000-7000-8000-000000000007","destination":"enrolment","tenant":"acme","subject":"E-7",` +
		`"event_type":"enrolment.changed","event_version":"7","event_id":"e7","event_at":"2026-11-01T12:00:00.123456Z","not_after":null,` +
		`"body":"envelope","created_at":"2026-11-01T12:00:01.123456Z","finished_at":"2026-11-01T12:01:00.123456Z","state":"delivered",` +
		`"generation":1,"attempts":1,"class":"ok","status":200,"reason":null,"fingerprint":null,` +
		`"payload":"{\"b\":1.0,  \"a\":\"<&>\\u00e9é\"}\n","history":[{"attempt_id":"01020000-0000-0000-0000-000000000007",` +
		`"generation":1,"attempt":1,"worker":"worker-1","started_at":"2026-11-01T12:00:02.123456Z","finished_at":"2026-11-01T12:00:03.123456Z",` +
		`"class":"ok","status":200,"latency_seconds":0.012345,"message":null,"excerpt":null}]}` + "\n"
	if string(got) != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// What a row reads as is what it was, whatever stands in it.
func TestRowsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyArchived().Draw(t, "delivery")
		line, err := appendRow(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(line) || strings.Count(string(line), "\n") != 1 {
			t.Fatalf("no line of JSON: %q", line)
		}
		got, err := decodeRow(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if string(got.Payload) != string(want.Payload) {
			t.Fatalf("payload %q became %q", want.Payload, got.Payload)
		}
		if again, err := appendRow(nil, &got); err != nil || string(again) != string(line) {
			t.Fatalf("%v\n%s\n%s", err, line, again)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPayloads(t *testing.T) {
	for name, test := range map[string]struct{ payload, want string }{
		"none":                    {"", `"payload":""`},
		"NUL in a text":           {"some text\x00", `"payload":"some text\u0000"`},
		"signs of HTML":           {"<b>&</b>", `"payload":"<b>&</b>"`},
		"a separator of lines":    {"a\u2028b\u2029c", `"payload":"a\u2028b\u2029c"`},
		"for a terminal":          {"a long text \x1b[2J \u0085 \u202e \x7f", `"payload":"a long text \u001b[2J \u0085 \u202e \u007f"`},
		"the mark of a bad text":  {"\ufffd", "\"payload\":\"\ufffd\""},
		"all planes":              {"é€😀", `"payload":"é€😀"`},
		"quotes":                  {`"\"\\`, `"payload":"\"\\\"\\\\"`},
		"not UTF-8":               {"text \xff", `"payload_base64":"dGV4dCD/"`},
		"half a letter":           {"\xe2\x82", `"payload_base64":"4oI="`},
		"a surrogate":             {"\xed\xa0\x80", `"payload_base64":"7aCA"`},
		"mostly control codes":    {"\x00\x01\x02", `"payload_base64":"AAEC"`},
		"control codes, but text": {"abcdefgh\x00", `"payload":"abcdefgh\u0000"`},
	} {
		t.Run(name, func(t *testing.T) {
			a := finished(1)
			a.Payload = []byte(test.payload)
			line, err := appendRow(nil, &a)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(line), ","+test.want+`,"history"`) {
				t.Errorf("no %s in %s", test.want, line)
			}
			got, err := decodeRow(line)
			if err != nil || string(got.Payload) != test.payload || got.Payload == nil {
				t.Errorf("%q became %q, %v", test.payload, got.Payload, err)
			}
		})
	}
}

// Rows go when they have been archived, so what could not be put back is not archived.
func TestRowsThatCannotBeKept(t *testing.T) {
	for want, change := range map[string]func(a *work.Archived){
		`delivery id ""`:                 func(a *work.Archived) { a.DeliveryID = "" },
		`state "scheduled" is none`:      func(a *work.Archived) { a.State = work.Scheduled },
		"generation 0":                   func(a *work.Archived) { a.Generation = 0 },
		"with -1 attempts":               func(a *work.Archived) { a.Attempts = -1 },
		`class "odd" is not known`:       func(a *work.Archived) { a.Class = "odd" },
		`reason "odd" is not known`:      func(a *work.Archived) { a.Reason = "odd" },
		`body "odd" is not known`:        func(a *work.Archived) { a.Body = "odd" },
		"subject: not UTF-8":             func(a *work.Archived) { a.Subject = "a\xff" },
		"message: not UTF-8":             func(a *work.Archived) { a.History[0].Message = "\xc3" },
		"event_at: not UTF-8, or a time": func(a *work.Archived) { a.EventAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"attempt 0 of generation 1":      func(a *work.Archived) { a.History[0].Number = 0 },
		"generation 1 with a latency of": func(a *work.Archived) { a.History[0].Latency = -1 },
		`generation 1: class "" is not`:  func(a *work.Archived) { a.History[0].Class = "" },
	} {
		a := finished(1)
		change(&a)
		if _, err := appendRow(nil, &a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// What no Writer writes is refused rather than guessed at.
func TestLinesThatAreNoRows(t *testing.T) {
	a := finished(1)
	line, err := appendRow(nil, &a)
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, by string) string {
		if !strings.Contains(string(line), old) {
			t.Fatalf("no %s in %s", old, line)
		}
		return strings.Replace(string(line), old, by, 1)
	}
	for name, text := range map[string]string{
		"nothing":               "",
		"an array":              "[]",
		"two values":            string(line) + "{}",
		"of a later version":    change(`"tenant":`, `"realm":"x","tenant":`),
		"in an attempt":         change(`"worker":`, `"host":"x","worker":`),
		"without a payload":     change(`"payload":`, `"payload_base64":null,"tenant":`),
		"with two payloads":     change(`"payload":`, `"payload_base64":"AAEC","payload":`),
		"no base64":             change(`"payload":`, `"payload_base64":"A","tenant":`),
		"an unfinished state":   change(`"state":"delivered"`, `"state":"leased"`),
		"a text for a number":   change(`"status":200`, `"status":"200"`),
		"not UTF-8":             change("acme", "ac\xffme"),
		"history: an object":    change(`"history":[`, `"history":{"a":[`) + "}",
		"history: empty braces": change(`"history":[`, `"history":[{},`),
		"latency: an exponent":  change(`0.012345`, `1e3`),
		"latency: negative":     change(`0.012345`, `-0.1`),
		"latency: too long":     change(`0.012345`, `99999999999`),
		"a time without a zone": change(`12:00:00.123456Z`, `12:00:00.123456`),
	} {
		if got, err := decodeRow([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func anyArchived() *rapid.Generator[work.Archived] {
	texts := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\x00\x1b\n\r\t\"\\/<>& a\x7f\u0085\u2028\u2029\u202e\ufffd\U0010ffff"))))
	payloads := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(texts, func(s string) []byte { return []byte(s) }))
	statuses := rapid.OneOf(rapid.Just(0), rapid.IntRange(100, 599))
	moments := rapid.OneOf(rapid.Just(time.Time{}), rapid.Custom(func(t *rapid.T) time.Time {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		return rapid.SampledFrom([]time.Time{at.UTC(), at.Truncate(time.Microsecond).UTC()}).Draw(t, "at")
	}))
	attempts := rapid.Custom(func(t *rapid.T) work.Attempt {
		return work.Attempt{
			ID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), Generation: rapid.IntRange(1, 1<<31-1).Draw(t, "generation"),
			Number: rapid.IntRange(1, 1<<31-1).Draw(t, "number"), Worker: texts.Draw(t, "worker"), StartedAt: moments.Draw(t, "started"),
			FinishedAt: moments.Draw(t, "finished"), Class: rapid.SampledFrom(work.Classes()).Draw(t, "class"), Status: statuses.Draw(t, "status"),
			Latency: time.Duration(rapid.Int64Min(0).Draw(t, "latency")), Message: texts.Draw(t, "message"), Excerpt: texts.Draw(t, "excerpt"),
		}
	})
	return rapid.Custom(func(t *rapid.T) work.Archived {
		return work.Archived{
			Envelope: work.Envelope{
				DeliveryID: rapid.StringMatching(`[A-Za-z0-9._:-]{1,128}`).Draw(t, "id"), Destination: texts.Draw(t, "destination"),
				Tenant: texts.Draw(t, "tenant"), Subject: texts.Draw(t, "subject"), EventType: texts.Draw(t, "type"),
				EventVersion: texts.Draw(t, "version"), EventID: texts.Draw(t, "event"), EventAt: moments.Draw(t, "at"),
				NotAfter: moments.Draw(t, "after"), Payload: payloads.Draw(t, "payload"),
				Body: rapid.SampledFrom([]work.BodyKind{work.BodyUnset, work.BodyEnvelope, work.BodyRaw}).Draw(t, "body"),
			},
			CreatedAt: moments.Draw(t, "created"), FinishedAt: moments.Draw(t, "finished"),
			State:      rapid.SampledFrom([]work.State{work.Delivered, work.Dead, work.Cancelled, work.Discarded}).Draw(t, "state"),
			Generation: rapid.IntRange(1, 1<<31-1).Draw(t, "generation"), Attempts: rapid.IntRange(0, 1<<31-1).Draw(t, "attempts"),
			Class: rapid.SampledFrom(append(work.Classes(), "")).Draw(t, "class"), Status: statuses.Draw(t, "status"),
			Reason:      rapid.SampledFrom([]work.Reason{work.NoReason, work.ReasonPermanent, work.ReasonExhausted, work.ReasonDiscarded}).Draw(t, "reason"),
			Fingerprint: texts.Draw(t, "fingerprint"), History: rapid.SliceOfN(attempts, 0, 4).Draw(t, "history"),
		}
	})
}

// FuzzText: whatever the text, JSON has it back, and nothing in it moves a terminal or
// ends a line.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x00\x1f\x7f\u0080\u009f\u00a0", "\u200e\u200f\u061c\u202a\u2066\u2069", "\"\\\n\r\t", "\xff", "a\xc3", "\u2028\ufffd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := appendText([]byte("before"), text)
		bytes, okBytes := appendText([]byte("before"), []byte(text))
		if ok != utf8.ValidString(text) || ok != okBytes {
			t.Fatalf("%q: %v as a text, %v as bytes", text, ok, okBytes)
		}
		if !ok {
			return
		}
		var back string
		if err := json.Unmarshal(got[len("before"):], &back); err != nil || back != text || string(bytes) != string(got) {
			t.Fatalf("%q: %q, %q, %v", text, got, back, err)
		}
		if strings.ContainsFunc(string(got), func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u202e' }) {
			t.Errorf("%q: %q", text, got)
		}
	})
}

// FuzzRow: no line makes it panic, and what can be read can be written, and read again.
func FuzzRow(f *testing.F) {
	for n := range 3 {
		a := finished(n)
		a.Payload = []byte(strings.Repeat("\xff", n))
		line, err := appendRow(nil, &a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	for _, seed := range []string{`{"history":[{},{}]}`, `{"payload":"\ud800"}`, `{"history":null}`, ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := decodeRow(line)
		if err != nil {
			return
		}
		again, err := appendRow(nil, &a)
		if err != nil {
			if strings.Contains(err.Error(), "outside the years") {
				return // by its zone, and none is written
			}
			t.Fatalf("%v: %+v", err, a)
		}
		b, err := decodeRow(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		same(t, []work.Archived{b}, []work.Archived{a})
	})
}
