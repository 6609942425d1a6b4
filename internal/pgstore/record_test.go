package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func openURL(t *testing.T, url string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fixture is one due delivery and two workers.
func fixture(t *testing.T) (d *testbed.Database, id string, a, b *worker) {
	d = testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id = d.Enqueue(t, "r", "E-1", `{}`)
	return d, id, newWorker(t, d, "a"), newWorker(t, d, "b")
}

func TestRecordMovesEachWay(t *testing.T) {
	cases := []struct {
		name     string
		deadline int // hours from now
		result   func(work.Claimed) work.Result
		state    string
		history  string
	}{
		{"delivered", 1, delivered, "delivered", "1.1 ok a"},
		{"retry", 1, failed, "scheduled", "1.1 unavailable a"},
		{"dead", 1, dead, "dead", "1.1 rejected a"},
		{"released", 1, func(c work.Claimed) work.Result {
			return work.Result{ID: c.ID, AttemptID: c.AttemptID, Move: work.MoveRelease}
		}, "scheduled", ""},
		{"cancelled", -1, func(c work.Claimed) work.Result {
			return work.Result{ID: c.ID, AttemptID: c.AttemptID, Move: work.MoveCancelled, Reason: work.ReasonNotAfter}
		}, "cancelled", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := testbed.DB(t)
			d.Destination(t, "r", "https://r.example/")
			id := testbed.QueryString(t, d, `
SELECT delivery_id FROM whctl.enqueue('r', 'test', 's', '{}', not_before => now() - interval '2 hours', not_after => now() + $1 * interval '1 hour')`, c.deadline)
			a := newWorker(t, d, "a")
			if fate := a.record(c.result(a.one())); fate != work.Written {
				t.Errorf("fate %v", fate)
			}
			if got := state(t, d, id); got != c.state {
				t.Errorf("state %s, want %s", got, c.state)
			}
			if got := history(t, d, id); got != c.history {
				t.Errorf("history %q, want %q", got, c.history)
			}
			testbed.Check(t, d)
		})
	}
}

// What a group has of one kind only goes for that result, wherever it stands.
func TestAGroupKeepsItsResultsApart(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		d := testbed.DB(t)
		d.Destination(t, "r", "https://r.example/")
		for _, key := range []string{"E-1", "E-2", "E-3", "E-4"} {
			d.Enqueue(t, "r", key, `{}`)
		}
		a := newWorker(t, d, "a")
		claimed := a.claim(4)
		taken := lost(claimed[1])
		taken.Worker = "other#1"
		results := []work.Result{failed(claimed[0]), taken, dead(claimed[2]), delivered(claimed[3])}
		if reversed {
			slices.Reverse(results)
		}
		if _, err := a.store.Record(t.Context(), a.owner, results); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"scheduled waits 503 - unavailable a 503/down", "scheduled due - - lost other lost/-",
			"dead - 400 f rejected a -/-", "delivered - 200 - ok a -/-",
		}
		for i, c := range claimed {
			got := testbed.QueryString(t, d, `
SELECT concat_ws(' ', whctl.state_word(d.state, d.attempt_id),
                 CASE WHEN d.next_attempt_at > now() THEN 'waits' WHEN d.state = 0 THEN 'due' ELSE '-' END,
                 coalesce(d.status::text, '-'), coalesce(d.fingerprint, '-'), whctl.class_word(a.class), split_part(a.worker, '#', 1),
                 coalesce(a.message, '-') || '/' || coalesce(a.excerpt, '-'))
FROM whctl.deliveries d JOIN whctl.attempts a ON a.delivery_id = d.id WHERE d.id = $1`, c.ID)
			if got != want[i] {
				t.Errorf("reversed %v, result %d: %s, want %s", reversed, i, got, want[i])
			}
		}
	}
}

func TestRetryIsDueAfterItsDelay(t *testing.T) {
	d, _, a, _ := fixture(t)
	a.record(failed(a.one()))
	if n := testbed.QueryInt(t, d, `
SELECT round(extract(epoch FROM d.next_attempt_at - a.finished_at))
FROM whctl.deliveries d JOIN whctl.attempts a ON a.delivery_id = d.id`); n != int64(time.Hour/time.Second) {
		t.Errorf("due %d s after it was recorded, want an hour", n)
	}
}

// A driver that sends a statement twice, or a run that repeats a group whose commit was
// not answered, must change nothing the second time.
func TestRecordTwiceIsOnce(t *testing.T) {
	for _, make := range []func(work.Claimed) work.Result{delivered, failed, dead, lost} {
		d, id, a, _ := fixture(t)
		r := make(a.one())
		a.record(r)
		before := history(t, d, id)
		if fate := a.record(r); fate != work.Written {
			t.Errorf("the repeat's fate is %v, want written", fate)
		}
		if got := history(t, d, id); got != before {
			t.Errorf("history %q after the repeat, %q before", got, before)
		}
		testbed.Check(t, d)
	}
}

func TestRecordSurvivesACutLink(t *testing.T) {
	for _, say := range []string{"whctl.attempts", "COMMIT"} {
		t.Run(say, func(t *testing.T) {
			d := testbed.DB(t)
			d.Destination(t, "r", "https://r.example/")
			id := d.Enqueue(t, "r", "E-1", `{}`)
			link := testbed.Proxy(t, d.URL)
			w := &worker{t: t, store: openURL(t, link.URL(d.URL)), owner: "a#1"}
			c := w.one()
			cut := link.CutAfterAnswer(testbed.Says(say))
			if fate := w.record(failed(c)); fate != work.Written {
				t.Errorf("fate %v, want written", fate)
			}
			testbed.Await(t, "the cut", cut.Done)
			if got := history(t, d, id); got != "1.1 unavailable a" {
				t.Errorf("history %q", got)
			}
			testbed.Check(t, d)
		})
	}
}

func TestLateFailureChangesNothing(t *testing.T) {
	d, id, a, b := fixture(t)
	first := a.one()
	expire(t, d)
	b.record(lost(b.one()))
	b.record(delivered(b.one()))
	if fate := a.record(failed(first)); fate != work.Late {
		t.Errorf("fate %v, want late", fate)
	}
	if got := state(t, d, id); got != "delivered" {
		t.Errorf("state %s, want delivered", got)
	}
	if got := history(t, d, id); got != "1.1 lost a, 1.2 ok b" {
		t.Errorf("history %q", got)
	}
	testbed.Check(t, d)
}

func TestLateFailureDoesNotTouchALiveLease(t *testing.T) {
	d, id, a, b := fixture(t)
	first := a.one()
	expire(t, d)
	b.record(lost(b.one()))
	second := b.one()
	if fate := a.record(dead(first)); fate != work.Late {
		t.Errorf("fate %v, want late", fate)
	}
	if got := state(t, d, id); got != "leased" {
		t.Errorf("state %s, want leased by b", got)
	}
	b.record(delivered(second))
	testbed.Check(t, d)
}

func TestLateSuccessCounts(t *testing.T) {
	cases := []struct {
		name    string
		between func(b *worker)
		history string
	}{
		{"scheduled again", func(b *worker) { b.record(lost(b.one())) }, "1.1 ok a"},
		{"leased by another", func(b *worker) { b.record(lost(b.one())); b.one() }, "1.1 ok a, 1.2 lost b"},
		{"taken over, not closed yet", func(b *worker) { b.one() }, "1.1 ok a"},
		{"dead as lost", func(b *worker) {
			r := lost(b.one())
			r.Move, r.Reason, r.Fingerprint = work.MoveDead, work.ReasonLost, "f"
			b.record(r)
		}, "1.1 ok a"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, id, a, b := fixture(t)
			first := a.one()
			expire(t, d)
			c.between(b)
			if fate := a.record(delivered(first)); fate != work.LateOK {
				t.Errorf("fate %v, want a late success that counts", fate)
			}
			if fate := a.record(delivered(first)); fate != work.Written {
				t.Errorf("its repeat's fate %v, want written", fate)
			}
			if got := state(t, d, id); got != "delivered" {
				t.Errorf("state %s, want delivered", got)
			}
			if got := history(t, d, id); got != c.history {
				t.Errorf("history %q, want %q", got, c.history)
			}
			testbed.Check(t, d)
		})
	}
}

// The finder of a lost attempt comes to close it after its worker's own success.
func TestClosingAsLostAfterTheTruthIsLate(t *testing.T) {
	d, id, a, b := fixture(t)
	first := a.one()
	expire(t, d)
	taken := b.one()
	a.record(delivered(first))
	if fate := b.record(lost(taken)); fate != work.Late {
		t.Errorf("fate %v, want late", fate)
	}
	if got := history(t, d, id); got != "1.1 ok a" {
		t.Errorf("history %q", got)
	}
	testbed.Check(t, d)
}

func TestLateSuccessOfACancelledIsOnRecordOnly(t *testing.T) {
	d, id, a, b := fixture(t)
	first := a.one()
	expire(t, d)
	b.record(lost(b.one()))
	testbed.Exec(t, d, `SELECT whctl.cancel($1, 'not wanted')`, id)
	if fate := a.record(delivered(first)); fate != work.Late {
		t.Errorf("fate %v, want late", fate)
	}
	if got := state(t, d, id); got != "cancelled" {
		t.Errorf("state %s, want cancelled", got)
	}
	if got := history(t, d, id); got != "1.1 ok a" {
		t.Errorf("history %q", got)
	}
}

// The owner alone is no fence: a worker may find its own attempt, whose lease ran out
// while it was stopped, and start the next one.
func TestALateResultOfTheSameWorker(t *testing.T) {
	d, id, a, _ := fixture(t)
	first := a.one()
	expire(t, d)
	a.record(lost(a.one()))
	second := a.one()
	if fate := a.record(dead(first)); fate != work.Late {
		t.Errorf("fate %v, want late", fate)
	}
	if got := state(t, d, id); got != "leased" {
		t.Errorf("state %s, want leased: the second attempt is under way", got)
	}
	a.record(delivered(second))
	if got := history(t, d, id); got != "1.1 lost a, 1.2 ok a" {
		t.Errorf("history %q", got)
	}
	testbed.Check(t, d)
}
