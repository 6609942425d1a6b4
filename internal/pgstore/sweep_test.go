package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// age puts n deliveries in that came to their end in state 40 days ago, all at the same
// instant, with so many attempts each.
func age(t *testing.T, d *testbed.Database, name string, n, state, attempts int) {
	t.Helper()
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('old', 'https://old.example.com/') ON CONFLICT DO NOTHING`)
	testbed.Plant(t, d, `
WITH p AS (SELECT $1::text AS name, $2::int AS n, $3::smallint AS state, $4::int AS attempts, now() - interval '40 days' AS at),
e AS (
  INSERT INTO whctl.envelopes (delivery_id, destination, subject, event_type, event_version, event_at, created_at, payload)
  SELECT p.name || i, 'old', p.name || i, 'case', '1', p.at, p.at, '{}' FROM p, generate_series(1, p.n) i
  RETURNING id),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, state, finished_at, started_at, attempts, class, status, reason)
  SELECT e.id, x.id, p.state, p.at, p.at, p.attempts, CASE p.state WHEN 1 THEN 1 ELSE 15 END, CASE p.state WHEN 1 THEN 200 ELSE 503 END,
         CASE p.state WHEN 2 THEN 2 END
  FROM e, p, whctl.destinations x WHERE x.name = 'old'
  RETURNING id)
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, generation, attempt, class, status, worker)
SELECT d.id, gen_random_uuid(), p.at, p.at, 1, k, CASE WHEN k = p.attempts AND p.state = 1 THEN 1 ELSE 15 END,
       CASE WHEN k = p.attempts AND p.state = 1 THEN 200 ELSE 503 END, 'test'
FROM d, p, generate_series(1, p.attempts) k`, name, n, state, attempts)
}

const day = 24 * time.Hour

func month(states ...work.State) work.Retention {
	return work.Retention{Name: "p", Version: 1, Target: work.TargetDeliveries, States: states, Keep: 30 * day, Batch: 10}
}

func sweepRequest(p work.Retention, r work.Reach) work.SweepRequest {
	return work.SweepRequest{
		Policy: p, Reach: r, Owner: "one",
		Judge: func([]work.RetentionVersion) error { return nil }, Admit: func(int64, int64) error { return nil },
	}
}

func begin(t *testing.T, s *pgstore.Store, r work.SweepRequest) work.Sweep {
	t.Helper()
	sweep, err := s.BeginSweep(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return sweep
}

func batch(t *testing.T, s *pgstore.Store, sweep work.Sweep, limit int) work.Swept {
	t.Helper()
	swept, err := s.SweepBatch(t.Context(), work.SweepBatch{Sweep: sweep, Owner: "one", Limit: limit, Hold: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

// drain sweeps to the end, and says how many deliveries went.
func drain(t *testing.T, s *pgstore.Store, sweep work.Sweep, limit int) (n int64) {
	t.Helper()
	if sweep.ID == 0 || sweep.Finished {
		return 0
	}
	for {
		swept := batch(t, s, sweep, limit)
		n += swept.Deliveries
		if swept.Last {
			if err := s.EndSweep(t.Context(), sweep, "one", true); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
}

func inState(t *testing.T, d *testbed.Database, state int) int64 {
	t.Helper()
	return testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries WHERE state = $1`, state)
}

func verified(t *testing.T, s *pgstore.Store) {
	t.Helper()
	if faults, _, err := s.VerifyLedger(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("the ledger has faults: %v %v", faults, err)
	}
}

// A run that spares the dead may take up a sweep that was begun with them: by the same
// age as well as by the same instant.
func TestSweepTakenUpSparesTheDead(t *testing.T) {
	for name, reach := range map[string]work.Reach{
		"age":     {Age: 30 * day},
		"instant": {Before: time.Now().Add(-30 * day)},
	} {
		t.Run(name, func(t *testing.T) {
			d := testbed.DB(t)
			s := open(t, d)
			age(t, d, "a", 10, 1, 1)
			age(t, d, "d", 10, 2, 1)
			age(t, d, "b", 10, 1, 1)
			p := month(work.Delivered, work.Dead)
			batch(t, s, begin(t, s, sweepRequest(p, reach)), 5)
			spared := reach
			spared.SpareDead = true
			if n := drain(t, s, begin(t, s, sweepRequest(p, spared)), 5); n != 15 || inState(t, d, 2) != 10 {
				t.Errorf("%d went and %d dead letters are left, want 15 and 10", n, inState(t, d, 2))
			}
			if n := drain(t, s, begin(t, s, sweepRequest(p, reach)), 5); n != 10 {
				t.Errorf("by the policy's name %d dead letters went, want 10", n)
			}
			verified(t, s)
		})
	}
}

// What is widened is asked for like a new sweep.
func TestWidenedSweepIsAdmitted(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 3, 1, 1)
	age(t, d, "d", 20, 2, 1)
	p := month(work.Delivered, work.Dead)
	p.MaxRows = 5
	r := sweepRequest(p, work.Reach{Before: time.Now().Add(-30 * day), SpareDead: true})
	drain(t, s, begin(t, s, r), 10)
	r.Reach.SpareDead = false
	refused := errors.New("too many")
	r.Admit = func(candidates, _ int64) error {
		if candidates > p.MaxRows {
			return refused
		}
		return nil
	}
	if _, err := s.BeginSweep(t.Context(), r); !errors.Is(err, refused) {
		t.Errorf("a sweep of 20 beside max_rows 5: %v", err)
	}
}

// A sweep by hand says nothing of what the policy keeps.
func TestSweepByHandIsNoSweepOfTheVersion(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	p := month(work.Delivered)
	swept := func() bool {
		versions, err := s.RetentionVersions(t.Context(), "p")
		if err != nil || len(versions) != 1 {
			t.Fatal(versions, err)
		}
		return !versions[0].SweptAt.IsZero()
	}
	begin(t, s, sweepRequest(p, work.Reach{Age: 400 * day, ByHand: true}))
	begin(t, s, sweepRequest(p, work.Reach{Before: time.Now().Add(-400 * day), ByHand: true}))
	begin(t, s, sweepRequest(p, work.Reach{Age: p.Keep, ByHand: true, SpareDead: true}))
	if swept() {
		t.Error("a sweep by hand counts as one by the policy")
	}
	begin(t, s, sweepRequest(p, work.Reach{Age: p.Keep}))
	if !swept() {
		t.Error("a sweep by the policy is not on record")
	}
}

// Two runs share the batches of one sweep; all rows have the same instant, and batches end
// among them.
func TestSweepsShareBatches(t *testing.T) {
	d := testbed.DB(t)
	age(t, d, "a", 95, 1, 2)
	total := make(chan int64, 2)
	failed := make(chan error, 2)
	for i := range 2 {
		s := open(t, d)
		r := sweepRequest(month(work.Delivered), work.Reach{Age: 30 * day})
		r.Owner = fmt.Sprint("run", i)
		sweep := begin(t, s, r)
		go func() {
			var n int64
			for {
				swept, err := s.SweepBatch(context.WithoutCancel(t.Context()), work.SweepBatch{Sweep: sweep, Owner: r.Owner, Limit: 10, Hold: time.Minute})
				n += swept.Deliveries
				if err != nil || swept.Last {
					total <- n
					failed <- err
					return
				}
			}
		}()
	}
	n := <-total + <-total
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Fatal(err)
	}
	if n != 95 || inState(t, d, 1) != 0 {
		t.Errorf("two runs count %d of 95, and %d are left", n, inState(t, d, 1))
	}
	if got := testbed.QueryString(t, d, `SELECT string_agg(seq::text, ' ' ORDER BY seq) || ' of ' || count(DISTINCT cutoff) || ': ' || sum(deliveries) || ' ' || sum(attempts) FROM whctl.sweep_batches`); got != "1 2 3 4 5 6 7 8 9 10 of 1: 95 190" {
		t.Errorf("ledger %s", got)
	}
	verified(t, open(t, d))
}

// rival holds what a statement locks until it is let go of.
func rival(t *testing.T, d *testbed.Database, statement string) (commit func()) {
	t.Helper()
	db, err := sql.Open("postgres", d.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSweepSkipsWhatIsHeld(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 20, 1, 1)
	let := rival(t, d, `SELECT FROM whctl.deliveries WHERE id IN (SELECT id FROM whctl.envelopes WHERE delivery_id IN ('a3', 'a4')) FOR UPDATE`)
	r := sweepRequest(month(work.Delivered), work.Reach{Age: 30 * day})
	first := batch(t, s, begin(t, s, r), 100)
	if first.Deliveries != 18 || first.Skipped != 2 || !first.Last {
		t.Fatalf("beside a lock: %+v, want 18 gone and 2 skipped", first)
	}
	if err := s.EndSweep(t.Context(), begin(t, s, r), "one", true); err != nil {
		t.Fatal(err)
	}
	verified(t, s)
	let()
	if n := drain(t, s, begin(t, s, r), 100); n != 2 {
		t.Errorf("the next sweep removed %d, want 2", n)
	}
	verified(t, s)
}

// The archive is a place between look and deed: what was locked there stays locked.
func TestArchiveThatFailsKeepsTheRows(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 5, 1, 2)
	full := errors.New("no room")
	_, err := s.SweepBatch(t.Context(), work.SweepBatch{
		Sweep: begin(t, s, sweepRequest(month(work.Delivered), work.Reach{Age: 30 * day})), Owner: "one", Limit: 10, Hold: time.Minute,
		Archive: func(key string, rows []work.Archived) (work.ArchiveMark, error) {
			if len(rows) != 5 || len(rows[0].History) != 2 || !strings.HasSuffix(key, "/1") {
				t.Errorf("the archive of %s is given %d rows", key, len(rows))
			}
			return work.ArchiveMark{}, full
		},
	})
	if !errors.Is(err, full) || inState(t, d, 1) != 5 || testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.sweep_batches`) != 0 {
		t.Errorf("an archive without room: %v, %d left of 5", err, inState(t, d, 1))
	}
}

func TestSweepOfAttemptsLeavesTheLast(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 12, 1, 3)
	age(t, d, "d", 2, 2, 3)
	p := month(work.Delivered, work.Cancelled, work.Discarded)
	p.Target = work.TargetAttempts
	drain(t, s, begin(t, s, sweepRequest(p, work.Reach{Age: 30 * day})), 5)
	if got := testbed.QueryString(t, d, `
SELECT string_agg(DISTINCT d.state || ': ' || (SELECT string_agg(a.attempt::text, ' ' ORDER BY a.attempt) FROM whctl.attempts a WHERE a.delivery_id = d.id), ', ')
FROM whctl.deliveries d`); got != "1: 3, 2: 1 2 3" {
		t.Errorf("attempts left of delivered and dead: %s", got)
	}
	if next := begin(t, s, sweepRequest(p, work.Reach{Age: 30 * day})); next.ID != 0 {
		t.Errorf("a second sweep of attempts begins before the place of the first: %+v", next)
	}
	verified(t, s)
}

func TestAloneIsBusyBesideAnother(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 20, 1, 1)
	r := sweepRequest(month(work.Delivered), work.Reach{Age: 30 * day})
	first := begin(t, s, r)
	r.Owner, r.Alone = "two", true
	if _, err := s.BeginSweep(t.Context(), r); !errors.Is(err, work.ErrBusy) || !strings.Contains(err.Error(), "one works at") {
		t.Errorf("beside another run: %v", err)
	}
	if err := s.EndSweep(t.Context(), first, "one", false); err != nil {
		t.Fatal(err)
	}
	if begin(t, s, r).ID != first.ID {
		t.Error("what was let go of is not taken up")
	}
}

func TestLedgerNeverChanges(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 2, 1, 1)
	drain(t, s, begin(t, s, sweepRequest(month(work.Delivered), work.Reach{Age: 30 * day})), 10)
	db, err := sql.Open("postgres", d.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`UPDATE whctl.sweep_batches SET deliveries = 1`, `DELETE FROM whctl.sweep_batches`, `UPDATE whctl.retention_policies SET keep_us = 1`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s is not refused", statement)
		}
	}
}

// A run that finds nothing left ends the sweep only if that is still so.
func TestSweepThatWasWidenedIsNotEnded(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	age(t, d, "a", 3, 1, 1)
	age(t, d, "b", 3, 2, 1)
	p, before := month(work.Delivered, work.Dead), time.Now().Add(-30*day)
	first := begin(t, s, sweepRequest(p, work.Reach{Before: before, SpareDead: true}))
	if swept, err := s.SweepBatch(t.Context(), work.SweepBatch{Sweep: first, Owner: "one", Limit: 10}); err != nil || swept.Deliveries != 3 {
		t.Fatalf("%+v, %v", swept, err)
	}
	second := begin(t, s, sweepRequest(p, work.Reach{Before: before}))
	if err := s.EndSweep(t.Context(), first, "one", true); err != nil {
		t.Fatal(err)
	}
	if swept, err := s.SweepBatch(t.Context(), work.SweepBatch{Sweep: second, Owner: "two", Limit: 10}); err != nil || swept.Deliveries != 3 {
		t.Errorf("%+v, %v: the dead letters were forgotten", swept, err)
	}
}
