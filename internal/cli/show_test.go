package cli

import (
	"regexp"
	"strings"
	"testing"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/testbed"
)

// closedPipe is a stdout whose reader has gone.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, console.ErrReaderGone }

// leased is a delivery whose second attempt is open; the first failed.
func leased(t *testing.T, d *testbed.Database) string {
	t.Helper()
	d.Destination(t, "r", "https://r.example/")
	id := testbed.QueryString(t, d, `
SELECT delivery_id FROM whctl.enqueue('r', 'enrolment.changed', 'E-7', '{"n":1}', 'acme', 'v1', 'evt-7', '2026-11-01 09:00:00+00', 'del-7', NULL, '2126-01-01 00:00:00+00')`)
	testbed.Exec(t, d, `
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, latency_us, generation, attempt, class, status, worker, message, excerpt)
SELECT id, '00000000-0000-4000-8000-000000000001', '2026-11-01 10:00:00+00', '2026-11-01 10:00:01+00', 250000, 1, 1, 15, 503, 'w1#abc', '503 Service Unavailable', 'try later'
FROM whctl.envelopes`)
	testbed.Exec(t, d, `
UPDATE whctl.deliveries SET attempts = 2, attempt_id = '00000000-0000-4000-8000-000000000002', lease_owner = 'w2#def', class = 15, status = 503,
  lease_expires_at = now() + interval '1 minute', started_at = '2026-11-01 10:05:00+00', next_attempt_at = '2026-11-01 10:05:00+00'`)
	return id
}

func TestShowAsJSON(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	future := regexp.MustCompile(`"(lease_expires_at|created_at)":"[^"]+"`)
	got := future.ReplaceAllString(run(t, d, 0, "show", "del-7", "-o", "json").out, `"$1":"T"`)
	want := `{"delivery_id":"del-7","state":"leased","destination":"r","tenant":"acme","subject":"E-7","event_type":"enrolment.changed",` +
		`"event_version":"v1","event_id":"evt-7","event_at":"2026-11-01T09:00:00.000000Z","not_after":"2126-01-01T00:00:00.000000Z","payload_bytes":7,` +
		`"generation":1,"attempts_in_generation":2,"next_attempt_at":"2026-11-01T10:05:00.000000Z","lease_holder":"w2","lease_expires_at":"T",` +
		`"class":"unavailable","status":503,"reason":null,"fingerprint":null,"created_at":"T","finished_at":null,"attempts":[` +
		`{"attempt_id":"00000000-0000-4000-8000-000000000001","delivery_id":"del-7","generation":1,"attempt":1,"worker":"w1",` +
		`"started_at":"2026-11-01T10:00:00.000000Z","finished_at":"2026-11-01T10:00:01.000000Z","class":"unavailable","status":503,` +
		`"latency_seconds":0.25,"message":"503 Service Unavailable","excerpt":"try later"},` +
		`{"attempt_id":"00000000-0000-4000-8000-000000000002","delivery_id":"del-7","generation":1,"attempt":2,"worker":"w2",` +
		`"started_at":"2026-11-01T10:05:00.000000Z","finished_at":null,"class":null,"status":null,"latency_seconds":null,"message":null,` +
		`"excerpt":null}],"acts":[]}` + "\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// show has every column of the views that others rely on.
func TestShowHasTheColumnsOfTheViews(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	one := decode[map[string]any](t, run(t, d, 0, "show", "del-7", "-o", "json").out)
	columns := func(view string) []string {
		return strings.Split(testbed.QueryString(t, d, `
SELECT string_agg(column_name, ',') FROM information_schema.columns WHERE table_schema = 'whctl' AND table_name = $1`, view), ",")
	}
	for _, c := range columns("delivery_status") {
		if _, ok := one[c]; !ok {
			t.Errorf("no %s", c)
		}
	}
	attempt := one["attempts"].([]any)[0].(map[string]any)
	for _, c := range columns("attempt_history") {
		if _, ok := attempt[c]; !ok {
			t.Errorf("no %s in an attempt", c)
		}
	}
}

func TestShowForPeople(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	out := run(t, d, 0, "show", "del-7").out
	has(t, out, "Delivery:", "del-7", "State:", "leased", "Leased to:", "w2", "Lease ends:", "(in ", "Payload:", "7 B", "Not after:", "2126-01-01T00:00:00.000000Z",
		"1, attempts in it: 2", "unavailable (503)", "Attempts\n", "503 Service Unavailable", "(open)", "250ms", "Answer to attempt 1 of generation 1\n  try later\n")
	if strings.Contains(out, `{"n":1}`) {
		t.Error("the payload is shown")
	}
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET lease_expires_at = now() - interval '1 second'`)
	has(t, run(t, d, 0, "show", "del-7").out, "the lease ran out")
	// On a narrow terminal nothing is cut.
	has(t, call{db: d, tty: true, width: "60", args: []string{"show", "del-7"}}.run(t).out, "503 Service Unavailable", "00000000-0000-4000-8000-000000000002")
}

func TestShowSeveral(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	other := d.Enqueue(t, "r", "E-8", `{}`)
	rows := decode[[]map[string]any](t, run(t, d, 0, "show", other, "del-7", other, "-o", "json").out)
	if len(rows) != 2 || rows[0]["delivery_id"] != other || rows[1]["delivery_id"] != "del-7" {
		t.Errorf("%v", rows)
	}
	if got := run(t, d, 0, "show", other, "del-7", "-o", "name").out; got != other+"\ndel-7\n" {
		t.Errorf("%q", got)
	}
	if lines := strings.Count(run(t, d, 0, "show", other, "del-7", "-o", "jsonl").out, "\n"); lines != 2 {
		t.Errorf("%d lines", lines)
	}
	got := run(t, d, 4, "show", "nobody", "del-7", "noone")
	has(t, got.err, "delivery nobody, noone: not found")
	has(t, got.out, "del-7")
	if got := run(t, d, 4, "show", "nobody", "-o", "json"); got.out != "" {
		t.Errorf("%+v", got)
	}
	if got := run(t, d, 4, "show", "nobody", "noone", "-o", "json"); got.out != "[]\n" {
		t.Errorf("%+v", got)
	}
}

func TestShowTellsWhoCancelled(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id := d.Enqueue(t, "r", "E-1", `{}`)
	run(t, d, 0, "cancel", id, "--reason", "withdrawn", "--operator", "ana")
	has(t, run(t, d, 0, "show", id).out, "cancelled (cancelled)", "Acts\n", "ana", "ROLE", "withdrawn")
	one := decode[map[string]any](t, run(t, d, 0, "show", id, "-o", "json").out)
	act := one["acts"].([]any)[0].(map[string]any)
	if act["operator"] != "ana" || act["action"] != "cancel" || act["reason"] != "withdrawn" || one["state"] != "cancelled" || one["next_attempt_at"] != nil {
		t.Errorf("%v", one)
	}
}
