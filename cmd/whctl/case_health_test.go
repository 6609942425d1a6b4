package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// limited is the settings of the cases with a circuit, and due times that no case waits
// for.
func limited(circuit string) string {
	return strings.Replace(settings, "circuit: {failures: 0}", "circuit: "+circuit, 1)
}

// slow answers after d, or when the client has left.
func slow(d time.Duration) testbed.Handler {
	return func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		over := make(chan struct{})
		t := time.AfterFunc(d, func() { close(over) })
		defer t.Stop()
		req.Hold(over)
	}
}

// mostOpen is how many requests of a log were open at the same time at most, and
// mostWithin how many arrived within any d.
func mostOpen(rs []*testbed.Request) (most int) {
	for _, at := range rs {
		n := 0
		for _, r := range rs {
			if !r.At.After(at.At) && (r.Finished().IsZero() || r.Finished().After(at.At)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func mostWithin(d time.Duration, times []time.Time) (most int) {
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) >= d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Twenty processes keep to one cap and one rate. WHCTL_TEST_MINUTE=1 makes it a minute.
func TestTwentyProcessesKeepToOneCapAndOneRate(t *testing.T) {
	long := "4s"
	if os.Getenv("WHCTL_TEST_MINUTE") != "" {
		long = "60s"
	}
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", slow(150*time.Millisecond))
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET max_in_flight = 4, rate = '20/s'`)
	b.due("r", 2000)
	var ps []*testbed.Process
	for i := range 20 {
		ps = append(ps, b.start("deliver", "--once", "--quiet", "--max-time", long, "--worker-id", fmt.Sprint("w", i)))
	}
	for _, p := range ps {
		<-p.Done() // a minute is longer than Wait would have patience for
		if res := p.Wait(); res.Code != 0 || res.Stderr != "" {
			t.Errorf("exit %d: %s", res.Code, res.Stderr)
		}
	}
	if n := mostOpen(r.Requests()); n > 4 {
		t.Errorf("%d requests were open at once, want at most 4", n)
	}
	var begun []time.Time
	if err := b.db.Admin.SelectContext(t.Context(), &begun, `SELECT a.started_at FROM whctl.attempts a ORDER BY a.started_at`); err != nil {
		t.Fatal(err)
	}
	if n := mostWithin(time.Second, begun); n > 21 {
		t.Errorf("%d attempts began within a second, want at most 21", n)
	}
	if len(begun) < 40 {
		t.Errorf("only %d attempts in %s", len(begun), long)
	}
	var arrived []time.Time
	for _, q := range r.Requests() {
		arrived = append(arrived, q.At)
	}
	t.Logf("%d attempts; at most %d arrived within a second", len(begun), mostWithin(time.Second, arrived))
}

// A receiver that refuses the credentials: no more are dead than it takes to see that.
func TestWrongCredentialsPauseADestination(t *testing.T) {
	b := newBench(t)
	defer b.check()
	// Time enough for a machine that has other things to do.
	b.configure(strings.NewReplacer("timeout: 2s", "timeout: 20s", "lease: 10s", "lease: 60s").Replace(settings))
	r := b.receiver("r", testbed.Answer(http.StatusUnauthorized))
	b.due("r", 10000)
	s := b.once()
	if s.Dead < 5 || s.Dead > 4+16 || s.HeldBack["paused"] != 10000-s.Dead {
		t.Fatalf("summary %+v, want the five and what was in flight dead", s)
	}
	if n := b.count(`state = 'scheduled' AND attempts > 0`); n != 0 {
		t.Errorf("attempts burnt on %d that are held", n)
	}
	if again := b.once(); again.Claimed != 0 || again.HeldBack["paused"] != 10000-s.Dead {
		t.Errorf("a second run: %+v", again)
	}
	if shown := b.must(0, "destination", "show", "r", "-o", "json").Stdout; !strings.Contains(shown, "auto-paused: credentials") {
		t.Errorf("shown as %s", shown)
	}
	r.Handle(testbed.Answer(http.StatusNoContent))
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET max_in_flight = 64`)
	b.must(0, "destination", "resume", "r", "--reason", "new token", "--operator", "ann")
	if done := b.once(); done.Delivered != 10000-s.Dead || b.count(`state = 'dead'`) != int64(s.Dead) {
		t.Errorf("after resuming: %+v", done)
	}
}

// A receiver that is down for an hour: probes are the only attempts, and afterwards all
// goes out within the rate. The hour is moved, not slept.
func TestDownForAnHour(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(limited(`{failures: 5, open_for: 30s, open_max: 15m}`))
	r := b.receiver("r", testbed.Answer(http.StatusServiceUnavailable))
	b.due("r", 300)
	if s := b.once(); s.Retried < 5 || s.Retried > 4+16 || s.HeldBack["circuit_open"] != 300-s.Retried {
		t.Fatalf("the circuit opens: %+v", s)
	}
	tries := r.Count()
	const step = 30 * time.Second
	probes := 0
	for moved := time.Duration(0); moved < time.Hour; moved += step {
		b.moveClock(step)
		s := b.once()
		if s.Claimed > 1 {
			t.Fatalf("after %s: %d attempts, want one probe at most", moved, s.Claimed)
		}
		probes += s.Claimed
	}
	// 30 s, then pauses of 1, 2, 4, 8, 15, 15 min begin with a probe: 30 min 30 s after the
	// fifth; the seventh pause ends at 45 min 30 s.
	if probes != 7 || r.Count() != tries+probes {
		t.Errorf("%d probes in an hour, want 7", probes)
	}
	if n := b.count(`attempts > 1 AND state = 'scheduled'`); n > 7 {
		t.Errorf("%d have burnt more than their first attempt", n)
	}
	r.Handle(testbed.Answer(http.StatusNoContent))
	b.moveClock(15 * time.Minute)
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET rate = '200/s'`)
	b.dueAgain()
	if s := b.once(); s.Delivered != 300 {
		t.Errorf("when it is back: %+v", s)
	}
	var begun []time.Time
	if err := b.db.Admin.SelectContext(t.Context(), &begun, `SELECT a.started_at FROM whctl.attempts a WHERE a.class = 1 ORDER BY a.started_at`); err != nil {
		t.Fatal(err)
	}
	if n := mostWithin(time.Second, begun); n > 201 {
		t.Errorf("%d within a second, want the rate of 200 at most", n)
	}
}

// moveClock lets time pass: everything that lies ahead comes nearer.
func (b *theBench) moveClock(d time.Duration) {
	b.t.Helper()
	testbed.Exec(b.t, b.db, `UPDATE whctl.destination_health SET open_until = open_until - $1 * interval '1 second',
probe_until = probe_until - $1 * interval '1 second', held_until = held_until - $1 * interval '1 second'`, d.Seconds())
	testbed.Exec(b.t, b.db, `UPDATE whctl.deliveries SET next_attempt_at = next_attempt_at - $1 * interval '1 second' WHERE state = 0 AND attempt_id IS NULL`, d.Seconds())
}

// What a receiver asks for with Retry-After holds all that is due to it.
func TestRetryAfterHoldsTheDestination(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	good := b.receiver("good", nil)
	b.due("r", 100)
	ids := b.due("good", 20)
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET max_in_flight = 2 WHERE name = 'r'`)
	if s := b.once(); s.Retried > 2 || s.HeldBack["retry_after"] != 100-s.Retried {
		t.Errorf("summary %+v", s)
	}
	b.eachOnce(ids, good)
	tries := r.Count()
	b.moveClock(2 * time.Minute)
	if s := b.once(); s.Claimed == 0 || r.Count() == tries {
		t.Errorf("after the time it asked for: %+v", s)
	}
	tries = r.Count()
	b.moveClock(2 * time.Minute)
	if res := b.must(0, "deliver", "--once", "--quiet"); r.Count() == tries || res.Stdout+res.Stderr != "" {
		t.Errorf("a quiet run that was asked to wait has cron send a mail: %q", res.Stdout+res.Stderr)
	}
}

// Pausing holds work back, and resuming lets it go.
func TestPauseAndResume(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	ids := b.due("r", 10)
	b.must(64, "destination", "pause", "r", "--operator", "ann")
	b.must(64, "destination", "pause", "r", "--reason", "moving")
	b.must(4, "destination", "pause", "nobody", "--reason", "moving", "--operator", "ann")
	b.must(0, "destination", "pause", "r", "--reason", "moving house", "--operator", "ann")
	if s := b.once(); s.Claimed != 0 || s.HeldBack["paused"] != 10 || s.DueRemaining != 10 || s.StoppedBy != "drained" {
		t.Errorf("summary %+v", s)
	}
	b.must(0, "destination", "resume", "r", "--reason", "there", "--operator", "ben")
	b.once()
	b.eachOnce(ids, r)
	if acts := testbed.QueryString(t, b.db, `SELECT string_agg(concat_ws(' ', operator, action, destination, reason), '; ' ORDER BY id) FROM whctl.audit_log`); acts != "ann pause r moving house; ben resume r there" {
		t.Errorf("on record: %s", acts)
	}
}

// A worker says what a person does about a destination that it has work for.
func TestAWorkerTellsOfAPause(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	p, first := b.up("r", r)
	b.must(0, "destination", "pause", "r", "--reason", "moving house", "--operator", "ann")
	ids := append(b.due("r", 3), first)
	p.WaitStderr(`"msg":"destination held back","destination":"r","hold":"paused","why":"paused by ann: moving house"`)
	b.must(0, "destination", "resume", "r", "--reason", "there", "--operator", "ben")
	p.WaitStderr(`"msg":"destination no longer held back","destination":"r","hold":"paused"`)
	r.WaitAnswered(4)
	b.settled(4, "delivered")
	b.stop(p)
	b.eachOnce(ids, r)
	if n := strings.Count(p.Stderr(), `held back"`); n != 2 {
		t.Errorf("said %d times:\n%s", n, p.Stderr())
	}
}

// H21 without a limit of places: a receiver that answers nothing must not have more in
// flight than its cap, however many workers there are.
func TestAHangingReceiverHoldsNoMoreThanItsCap(t *testing.T) {
	b := newBench(t)
	defer b.check()
	a := b.receiver("a", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(nil) })
	b.due("a", 200)
	good := b.receiver("b", nil)
	ids := b.due("b", 300)
	p, q := b.start("deliver", "--once", "--limit", "400"), b.start("deliver", "--once", "--limit", "400")
	good.WaitAnswered(300)
	if n := mostOpen(a.Requests()); n > 16 {
		t.Errorf("%d requests to it were open at once, want at most its cap of 16", n)
	}
	p.Kill()
	q.Kill()
	b.eachOnce(ids, good)
}

// A worker that is killed takes its share of a cap with it only as far as requests of
// its may still be under way.
func TestTheShareOfAKilledWorker(t *testing.T) {
	b := newBench(t)
	defer b.check()
	var hang atomic.Bool
	hang.Store(true)
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		if hang.Load() {
			req.Hold(nil)
		}
	})
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET max_in_flight = 4`)
	ids := b.due("r", 12)
	p := b.start("deliver", "--once", "--limit", "3")
	r.Wait(3)
	p.Kill()
	hang.Store(false)
	s := b.once()
	if s.Delivered != 9 {
		t.Errorf("summary %+v, want all but the three that are still leased", s)
	}
	b.leasesRunOut()
	if s := b.once(); s.Delivered != 3 || s.LostRecovered != 3 {
		t.Errorf("after the leases: %+v", s)
	}
	if n := b.count(`state = 'delivered'`); n != int64(len(ids)) {
		t.Errorf("%d delivered", n)
	}
}

// H38: a role that may connect three times.
func TestH38FewConnections(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	ids := b.due("r", 100)
	role, url := b.db.Login(t, "whctl_worker")
	testbed.Exec(t, b.db, `ALTER ROLE `+role+` CONNECTION LIMIT 3`)
	b.url = url
	if res := b.must(0, "deliver", "--once", "--concurrency", "8"); res.Stderr != "" {
		t.Errorf("stderr: %s", res.Stderr)
	}
	b.eachOnce(ids, r)
}

// H41: an old snapshot keeps every dead version of the rows.
func TestH41OldSnapshot(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	tx, err := b.db.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, q := range []string{`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM whctl.deliveries`} {
		if _, err := tx.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	b.due("r", 20000)
	for range 5 {
		testbed.Plant(t, b.db, `UPDATE whctl.deliveries SET state = 1, class = 1, next_attempt_at = NULL, finished_at = now()`)
		testbed.Plant(t, b.db, `UPDATE whctl.deliveries SET state = 0, class = NULL, next_attempt_at = now(), finished_at = NULL`)
	}
	testbed.Plant(t, b.db, `UPDATE whctl.deliveries SET next_attempt_at = now() + interval '1 day' WHERE id > (SELECT min(id) + 49 FROM whctl.deliveries)`)
	began := testbed.QueryString(t, b.db, `SELECT now()::text`)
	if s := b.once(); s.Delivered != 50 {
		t.Errorf("summary %+v", s)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.attempts a WHERE a.started_at > $1::timestamptz + interval '3 seconds'`, began); n != 0 {
		t.Errorf("%d of 50 began later than 3 s after the start", n)
	}
	if r.Count() != 50 {
		t.Errorf("%d requests", r.Count())
	}
}
