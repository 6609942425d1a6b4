package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// Invariant 11: retries never extend the business deadline, and event_at travels along.
func TestADeadlineIsNotExtendedByRetries(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(strings.Replace(settings, "body: raw", "body: envelope", 1))
	r := b.receiver("r", testbed.Answer(503))
	var id string
	err := b.db.Admin.GetContext(t.Context(), &id, `
SELECT delivery_id FROM whctl.enqueue('r', 'hold.expired', 's', '{"a": 1.0}', event_id => 'e-1', event_at => '2026-03-01 10:00:00.5+00', not_after => now() + interval '1 hour')`)
	if err != nil {
		t.Fatal(err)
	}
	b.once()
	want := fmt.Sprintf(`{"eventId":"e-1","deliveryId":%q,"type":"hold.expired","version":%q,"subject":"s","tenant":"","occurredAt":"2026-03-01T10:00:00.500000Z","data":{"a": 1.0}}`,
		id, b.status(id, "event_version"))
	if got := string(r.Requests()[0].Body); got != want {
		t.Errorf("body %s\nwant %s", got, want)
	}
	// The deadline passes while the delivery waits for its retry.
	testbed.Exec(t, b.db, `SET session_replication_role = replica; UPDATE whctl.envelopes SET not_after = clock_timestamp(); SET session_replication_role = origin`)
	b.dueAgain()
	if s := b.once(); s.Cancelled != 1 || r.Count() != 1 {
		t.Errorf("summary %+v, %d requests; want it cancelled and not sent again", s, r.Count())
	}
	if b.status(id, "state") != "cancelled" || b.history(id) != "1.1 unavailable" || b.status(id, "attempts") != "1" {
		t.Errorf("state %s, history %q, attempts %s", b.status(id, "state"), b.history(id), b.status(id, "attempts"))
	}
}

// The producer may take back what waits, inside its own transaction; a run then sends
// nothing of it.
func TestCancelledByTheProducer(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	ids := b.due("r", 2)
	b.must(0, "cancel", ids[0], "--reason", "booked elsewhere", "--operator", "ana")
	b.once()
	b.eachOnce(ids[1:], r)
	if got := testbed.QueryString(t, b.db, `SELECT operator || ' ' || action || ' ' || reason FROM whctl.audit_log WHERE delivery_id = $1`, ids[0]); got != "ana cancel booked elsewhere" {
		t.Errorf("audit %q", got)
	}
	b.must(3, "cancel", ids[1], "--reason", "too late")
	b.must(4, "cancel", "nosuch", "--reason", "x")
	b.must(64, "cancel", ids[1], "--reason", " ")
}

// A guard is asked right before sending; false cancels.
func TestGuards(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(settings + `guards: {case: "select wanted from public.reservations where id = :subject"}` + "\n")
	testbed.Exec(t, b.db, `CREATE TABLE public.reservations (id text PRIMARY KEY, wanted boolean)`)
	testbed.Exec(t, b.db, `INSERT INTO public.reservations VALUES ('s1', true), ('s2', false)`)
	testbed.Exec(t, b.db, `GRANT SELECT ON public.reservations TO app`)
	r := b.receiver("r", nil)
	ids := b.due("r", 3) // s3 is in no table at all
	if s := b.once(); s.Delivered != 1 || s.Cancelled != 2 {
		t.Errorf("summary %+v", s)
	}
	b.eachOnce(ids[:1], r)
}

// A destination that cannot be made ready keeps its deliveries; the others are served,
// and the scheduler is told.
func TestAHeldDestinationAlertsAndKeepsItsWork(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	testbed.Exec(t, b.db, `
INSERT INTO whctl.destinations (name, url, policy, signing_key, headers) VALUES
  ('policy', 'https://r.example/', 'nosuch-policy', '', '{}'),
  ('key', 'https://r.example/', 'default', 'nosuch-key', '{}'),
  ('header', 'https://r.example/', 'default', '', '{"X-Token": {"env": "NOSUCH_VARIABLE"}}'),
  ('literal', 'https://r.example/', 'default', '', '{"X-Token": "s3cr3t"}')`)
	good := b.due("r", 2)
	var held []string
	for _, name := range []string{"policy", "key", "header", "literal"} {
		held = append(held, b.due(name, 2)...)
	}
	res := b.must(78, "deliver", "--once", "-o", "json")
	if s := b.summaryOf(res); s.Delivered != 2 || s.DueRemaining != 8 {
		t.Errorf("summary %+v", s)
	}
	for _, name := range []string{"nosuch-policy", "nosuch-key", "NOSUCH_VARIABLE", `headers of destination "literal"`} {
		if !strings.Contains(strings.ReplaceAll(res.Stderr, `\"`, `"`), name) {
			t.Errorf("stderr does not name %s: %s", name, res.Stderr)
		}
	}
	if strings.Contains(res.Stderr, "s3cr3t") {
		t.Errorf("stderr quotes the literal: %s", res.Stderr)
	}
	b.eachOnce(good, r)
	for _, id := range held {
		if b.status(id, "state") != "scheduled" || b.status(id, "attempts") != "0" {
			t.Errorf("a held delivery is %s after %s attempts", b.status(id, "state"), b.status(id, "attempts"))
		}
	}
}

func TestLimitsOfARun(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	b.due("r", 20)
	if s := b.once("--limit", "5", "--concurrency", "3"); s.Delivered != 5 || s.StoppedBy != "limit" || s.DueRemaining != 15 || r.Count() != 5 {
		t.Errorf("summary %+v, %d requests", s, r.Count())
	}
	b.must(10, "deliver", "--once", "--limit", "1", "--detailed-exitcode")
	for _, args := range [][]string{
		{"--limit", "0"}, {"--limit", "-1"}, {"--max-time", "0s"}, {"--concurrency", "0"}, {"--fail-on", "x"}, {"--worker-id", "a#b"}, {"extra"}, {"--nosuch"},
	} {
		b.must(64, append([]string{"deliver", "--once"}, args...)...)
	}
	b.must(64, "deliver", "--limit", "5")
	if r.Count() != 6 {
		t.Errorf("%d requests, want 6: a usage error touches nothing", r.Count())
	}
}

// The summary has every field of the contract, whatever happened.
func TestSummaryFields(t *testing.T) {
	b := newBench(t)
	defer b.check()
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.must(0, "deliver", "--once", "-o", "json").Stdout), &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{
		"worker_id", "started_at", "finished_at", "claimed", "delivered", "retried", "dead", "cancelled", "lost_recovered", "released", "late",
		"unrecorded", "held_back", "due_remaining", "latency_seconds", "oldest_due_age_seconds", "by_class", "stopped_by",
	} {
		if _, ok := got[field]; !ok {
			t.Errorf("no %s", field)
		}
		delete(got, field)
	}
	if len(got) > 0 {
		t.Errorf("fields that are not documented: %v", got)
	}
}

// The process' own limit of open files is nobody else's fault: no attempt is used up by it.
func TestFewOpenFiles(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET max_in_flight = 10000`)
	ids := b.due("r", 300)
	res := testbed.Run(t, testbed.Cmd{
		Path: "/bin/sh", Args: []string{"-c", `ulimit -n 120; exec "$0" deliver --once`, testbed.Binary(t)},
		Env: []string{"WHCTL_CONFIG=" + b.config, "WHCTL_DATABASE_URL=" + b.url},
	})
	if res.Code != 0 || !strings.Contains(res.Stderr, "ulimit -n") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	b.eachOnce(ids, r)
}
