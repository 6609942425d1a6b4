package main

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// Four sweeps at once, killed forty times, while deliveries are made and dead letters go
// round: what is gone is what the ledger says and the first preview said, and nothing
// that lives was touched.
func TestFourSweepsKilledFortyTimes(t *testing.T) {
	b := newBench(t)
	testbed.Exec(t, b.db, `ALTER DATABASE `+b.db.Name+` SET deadlock_timeout = '100ms'`)
	b.retention(delivered30d + "  dead: {version: 1, states: [dead], keep: 30d, archive: {dir: " + t.TempDir() + "}}\n")
	b.finished(12000, "delivered", "40 days", 2)
	b.finished(3000, "dead", "40 days", 2)
	b.finished(500, "delivered", "20 days", 1)
	b.receiver("r", func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
		w.WriteHeader([]int{200, 500, 400}[rand.IntN(3)])
	})
	live := b.due("r", 3000)
	first := b.preview("--policy", "delivered")

	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { // the youngest of the old dead letters go round
		for ctx.Err() == nil {
			_, _ = b.db.Admin.ExecContext(ctx, `UPDATE whctl.deliveries SET state = 0, generation = generation + 1, attempts = 0, finished_at = NULL, reason = NULL, fingerprint = NULL,
				next_attempt_at = now() + interval '1 hour' WHERE id IN (SELECT id FROM whctl.deliveries WHERE state = 2 ORDER BY id DESC LIMIT 5)`)
		}
	})
	others.Go(func() {
		for ctx.Err() == nil {
			if r := testbed.Run(t, b.cmd("deliver", "--once", "--max-time", "2s")); ctx.Err() == nil && r.Code != 0 || strings.Contains(r.Stderr, "40P01") {
				t.Errorf("deliver: exit %d: %s", r.Code, r.Stderr)
			}
		}
	})
	var sweeps sync.WaitGroup
	for range 4 {
		sweeps.Go(func() {
			for range 10 {
				p := b.start("sweep", "--batch-size", "50", "--pause", "0s")
				timer := time.AfterFunc(time.Duration(20+rand.IntN(150))*time.Millisecond, p.Kill)
				<-p.Done()
				timer.Stop()
				if said := p.Stderr(); strings.Contains(said, "40P01") || strings.Contains(said, "deadlock") {
					t.Error(said)
				}
			}
		})
	}
	sweeps.Wait()
	stop()
	others.Wait()
	b.must(0, "sweep", "--pause", "0s")

	gone := testbed.QueryInt(t, b.db, `SELECT sum(deliveries) FROM whctl.sweep_batches WHERE policy = 'delivered'`)
	if gone != first.Removable || gone != 12000 {
		t.Errorf("the ledger says %d, the first preview %d", gone, first.Removable)
	}
	// Each dead letter was swept or went round.
	dead := testbed.QueryInt(t, b.db, `SELECT sum(deliveries) FROM whctl.sweep_batches WHERE policy = 'dead'`)
	round := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.deliveries d JOIN whctl.destinations x ON x.id = d.destination_id WHERE x.name = 'old' AND d.generation > 1`)
	if dead+round != 3000 || round == 0 || dead == 0 {
		t.Errorf("%d dead letters swept, %d went round, of 3000", dead, round)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.deliveries`); n != 500+round+int64(len(live)) {
		t.Errorf("%d deliveries are left", n)
	}
	b.must(0, "sweep", "verify")
}

// What another transaction holds is left alone, counted, and goes with the next sweep.
func TestWhatOthersHoldIsLeftForTheNextSweep(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(20, "delivered", "40 days", 1)
	tx, err := b.db.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM whctl.deliveries WHERE id IN (SELECT id FROM whctl.deliveries ORDER BY id LIMIT 7) FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if s := b.sweep("--batch-size", "5"); s.Deleted.Deliveries != 13 || s.Skipped.Locked != 7 || *s.Remaining != 7 || s.StoppedBy != "drained" {
		t.Errorf("%+v", s)
	}
	b.must(0, "sweep", "verify")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if s := b.sweep(); s.Deleted.Deliveries != 7 {
		t.Errorf("the next sweep: %+v", s)
	}
}

// A sweep to the same instant is a no-op that says so; unless something is left after all.
func TestTheSameInstantAgain(t *testing.T) {
	b := newBench(t)
	b.finished(5, "delivered", "40 days", 1)
	before := time.Now().UTC().Add(-30 * 24 * time.Hour).Format(time.RFC3339)
	b.sweep("--before", before)
	if s := b.sweep("--before", before); s.Deleted.Deliveries != 0 || s.AlreadyDone != 1 || s.StoppedBy != "drained" {
		t.Errorf("again: %+v", s)
	}
	b.finished(3, "delivered", "41 days", 1) // as if they had been held the first time
	if s := b.sweep("--before", before); s.Deleted.Deliveries != 3 {
		t.Errorf("what was left: %+v", s)
	}
	b.must(0, "sweep", "verify")
}

// A policy for attempts leaves the last one of each, and what is dead; it begins where the
// last sweep ended.
func TestAttemptsGoBeforeTheirDelivery(t *testing.T) {
	b := newBench(t)
	b.retention("  attempts: {version: 1, target: attempts, keep: 14d}\n")
	b.finished(30, "delivered", "20 days", 4)
	b.finished(30, "delivered", "20 days", 1)
	b.finished(10, "dead", "20 days", 4)
	b.finished(10, "delivered", "10 days", 4)
	if p := b.preview(); *p.Attempts != 90 {
		t.Errorf("previewed %d attempts", *p.Attempts)
	}
	if s := b.sweep("--batch-size", "7"); s.Deleted.Attempts != 90 || s.Deleted.Deliveries != 0 {
		t.Errorf("%+v", s)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.attempts a WHERE NOT EXISTS (SELECT FROM whctl.attempts l WHERE l.delivery_id = a.delivery_id AND l.attempt > a.attempt) AND attempt IN (1, 4)`); n != 80 {
		t.Errorf("%d last attempts of 80", n)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.attempts`); n != 30+30+40+40 {
		t.Errorf("%d attempts are left", n)
	}
	if s := b.sweep(); s.Deleted.Attempts != 0 {
		t.Errorf("again: %+v", s)
	}
	if p := b.preview(); p.Candidates != 0 || *p.Attempts != 0 {
		t.Errorf("previewed afterwards: %+v", p)
	}
	b.must(0, "sweep", "verify")
	if b.left() != 80 {
		t.Errorf("%d deliveries", b.left())
	}
}

// What was delivered so lately that a duplicate may yet come stays, whatever age is typed.
func TestTheDuplicateWindowStays(t *testing.T) {
	b := newBench(t)
	b.finished(5, "delivered", "10 days", 1)
	b.finished(3, "discarded", "10 days", 1)
	if p := b.preview("--older-than", "1d"); p.Candidates != 8 || p.Removable != 3 || p.Protected.DuplicateWindow != 5 {
		t.Errorf("%+v", p)
	}
	if s := b.sweep("--older-than", "1d"); s.Deleted.Deliveries != 3 || s.Skipped.DuplicateWindow != 5 || s.Skipped.Locked != 0 || b.left() != 5 {
		t.Errorf("%+v", s)
	}
}

// A sweep above its cap is refused whole.
func TestASweepAboveItsCapIsRefused(t *testing.T) {
	b := newBench(t)
	b.finished(10, "delivered", "40 days", 1)
	b.finished(10, "delivered", "1 day", 1)
	for _, limit := range []string{"max_rows: 9", "max_fraction: 0.49"} {
		b.retention("  delivered: {version: 1, states: [delivered], keep: 30d, " + limit + "}\n")
		if r := b.must(3, "sweep"); !strings.Contains(r.Stderr, strings.Split(limit, ":")[0]) || b.left() != 20 {
			t.Errorf("%s: %s", limit, r.Stderr)
		}
	}
	b.retention("  delivered: {version: 1, states: [delivered], keep: 30d, max_rows: 10, max_fraction: 0.5}\n")
	if s := b.sweep(); s.Deleted.Deliveries != 10 {
		t.Errorf("%+v", s)
	}
}

// Two runs share one sweep; one that does not want to, leaves.
func TestTwoRunsShareASweepOrDoNot(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(100, "delivered", "40 days", 1)
	p := b.start("sweep", "--batch-size", "10", "--pause", "1h", "-o", "json")
	until(t, "its first batch", func() bool { return b.left() == 90 })
	if r := b.must(75, "sweep", "--no-overlap"); !strings.Contains(r.Stderr, "works at the sweep of policy delivered") {
		t.Error(r.Stderr)
	}
	if s := b.sweep("--batch-size", "10", "--pause", "0s"); s.Deleted.Deliveries != 90 || s.AlreadyDone != 1 {
		t.Errorf("%+v", s)
	}
	p.Signal(syscall.SIGTERM)
	r := p.Wait()
	if s := oneOf[swept](t, r.Stdout); r.Code != 143 || s.Deleted.Deliveries != 10 || s.StoppedBy != "signal" {
		t.Errorf("exit %d, %+v", r.Code, s)
	}
	b.must(0, "sweep", "--no-overlap")
	b.must(0, "sweep", "verify")
}

// A stop file ends a run before its first batch, and brakes name themselves.
func TestWhatStopsASweep(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(10, "delivered", "40 days", 1)
	file := filepath.Join(t.TempDir(), "stop")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := b.sweep("--stop-file", file); s.StoppedBy != "stop_file" || b.left() != 10 {
		t.Errorf("%+v", s)
	}
	if r := b.must(77, "sweep", "--max-xmin-age", "1s"); !strings.Contains(r.Stderr, "pg_read_all_stats") {
		t.Error(r.Stderr)
	}
	testbed.Exec(t, b.db, `GRANT pg_read_all_stats TO app`)
	tx, err := b.db.Admin.BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT count(*) FROM whctl.deliveries`); err != nil {
		t.Fatal(err)
	}
	until(t, "an old snapshot", func() bool {
		return testbed.QueryInt(t, b.db, `SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND now() - xact_start > interval '100 milliseconds'`) > 0
	})
	if s := b.sweep("--max-xmin-age", "100ms", "--max-time", "1s"); s.StoppedBy != "max_xmin_age" || b.left() != 10 {
		t.Errorf("%+v", s)
	}
	if s := b.sweep("--max-lag", "1h", "--max-xmin-age", "1d"); s.Deleted.Deliveries != 10 {
		t.Errorf("%+v", s)
	}
}

// A role with the sweeper's rights alone can do all of it; one that only looks gets its
// preview, and is told that it does not count.
func TestTheSweepersRights(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(10, "delivered", "40 days", 1)
	_, reader := b.db.Login(t, "whctl_reader")
	_, sweeper := b.db.Login(t, "whctl_sweeper")
	b.url = reader
	if r := b.must(0, "dry-run", "cutoff"); !strings.Contains(r.Stderr, "not on record") || !strings.Contains(r.Stdout, "would remove 10 deliveries") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	b.must(77, "sweep")
	b.url = sweeper
	for _, args := range [][]string{{"dry-run", "cutoff"}, {"sweep"}, {"sweep", "history"}, {"sweep", "verify"}, {"sweep", "diff"}} {
		if r := b.must(0, args...); r.Stderr != "" {
			t.Errorf("%v: %s", args, r.Stderr)
		}
	}
	if b.left() != 0 {
		t.Errorf("%d left", b.left())
	}
}

// The ledger is for ever, and verify notices what disagrees with it.
func TestVerifyNoticesWhatDisagrees(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(10, "delivered", "40 days", 1)
	b.sweep("--batch-size", "5")
	if _, err := b.db.Admin.ExecContext(t.Context(), `DELETE FROM whctl.sweep_batches`); err == nil || !strings.Contains(err.Error(), "stays on record") {
		t.Errorf("the ledger could be deleted: %v", err)
	}
	for kind, change := range map[string]string{
		"sum":    `UPDATE whctl.sweep_batches SET deliveries = 4 WHERE seq = 1`,
		"gap":    `UPDATE whctl.sweep_batches SET seq = 3, deliveries = 5 WHERE seq = 1`,
		"orphan": `INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, generation, attempt, class, worker) VALUES (1, gen_random_uuid(), now(), 1, 1, 2, 'w')`,
		"stray":  `UPDATE whctl.sweep_batches SET version = 2`,
	} {
		testbed.Exec(t, b.db, `CREATE TABLE kept AS SELECT * FROM whctl.sweep_batches`)
		testbed.Plant(t, b.db, change)
		if r := b.must(3, "sweep", "verify", "-o", "json"); !strings.Contains(r.Stdout, `"kind":"`+kind+`"`) {
			t.Errorf("%s: %s", kind, r.Stdout)
		}
		testbed.Plant(t, b.db, `DELETE FROM whctl.sweep_batches`)
		testbed.Exec(t, b.db, `INSERT INTO whctl.sweep_batches SELECT * FROM kept`)
		testbed.Exec(t, b.db, `DROP TABLE kept`)
		testbed.Exec(t, b.db, `DELETE FROM whctl.attempts WHERE delivery_id = 1`)
	}
	b.must(0, "sweep", "verify")
	b.finished(1, "delivered", "50 days", 1) // as if it had been passed over
	if r := b.must(3, "sweep", "verify", "-o", "json"); !strings.Contains(r.Stdout, `"kind":"left"`) {
		t.Error(r.Stdout)
	}
}
