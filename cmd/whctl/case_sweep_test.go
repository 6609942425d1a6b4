package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// swept is the JSON of one policy's part in a sweep.
type swept struct {
	Policy  string    `json:"policy"`
	Version int       `json:"version"`
	Cutoff  time.Time `json:"cutoff"`
	Batches int       `json:"batches"`
	Deleted struct {
		Deliveries int64 `json:"deliveries"`
		Attempts   int64 `json:"attempts"`
	} `json:"deleted"`
	Skipped struct {
		Locked          int64
		DuplicateWindow int64 `json:"duplicate_window"`
	} `json:"skipped"`
	AlreadyDone int    `json:"already_done"`
	Remaining   *int64 `json:"remaining"`
	StoppedBy   string `json:"stopped_by"`
}

// previewed is the JSON of one policy's part in a preview.
type previewed struct {
	Policy     string    `json:"policy"`
	Cutoff     time.Time `json:"cutoff"`
	Estimated  bool      `json:"estimated"`
	Candidates int64     `json:"candidates"`
	Removable  int64     `json:"removable"`
	Attempts   *int64    `json:"attempts"`
	Batches    int64     `json:"batches"`
	ByState    map[string]int64
	Protected  struct {
		InFlight        int64 `json:"in_flight"`
		NotTerminal     int64 `json:"not_terminal"`
		Dead            int64 `json:"dead"`
		DuplicateWindow int64 `json:"duplicate_window"`
	} `json:"protected"`
	Compared struct {
		Keep       float64 `json:"keep"`
		Candidates int64   `json:"candidates"`
		Delta      int64   `json:"delta"`
	} `json:"compared_with_current"`
}

// retention is the cases' configuration with retention policies.
func (b *theBench) retention(policies string) {
	b.t.Helper()
	b.configure(settings + "retention:\n" + policies)
}

// finished puts n deliveries in that came to their end in state age ago, one a
// microsecond, each with so many attempts.
func (b *theBench) finished(n int, state string, age string, attempts int) {
	b.t.Helper()
	testbed.Exec(b.t, b.db, `INSERT INTO whctl.destinations (name, url) VALUES ('old', 'https://old.example.com/') ON CONFLICT DO NOTHING`)
	batch := fmt.Sprint(state, age, n, rand.Int64())
	testbed.Plant(b.t, b.db, `
WITH p AS (
  SELECT $1::int AS n, $2::smallint AS state, now() - $3::interval AS at, $4::int AS attempts, $5::text AS name),
e AS (
  INSERT INTO whctl.envelopes (delivery_id, destination, subject, event_type, event_version, event_at, created_at, payload)
  SELECT p.name || ':' || i, 'old', p.name || i, 'case', '1', p.at, p.at, '{}'
  FROM p, generate_series(1, p.n) i
  RETURNING id),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, state, finished_at, started_at, attempts, class, status, reason)
  SELECT e.id, x.id, p.state, p.at + row_number() OVER (ORDER BY e.id) * interval '1 microsecond', p.at, p.attempts,
         CASE WHEN p.attempts > 0 THEN CASE p.state WHEN 1 THEN 1 ELSE 15 END END, CASE WHEN p.attempts > 0 THEN CASE p.state WHEN 1 THEN 200 ELSE 503 END END,
         CASE p.state WHEN 2 THEN 2 WHEN 3 THEN 8 WHEN 4 THEN 9 END
  FROM e, p, whctl.destinations x WHERE x.name = 'old'
  RETURNING id)
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, generation, attempt, class, status, worker)
SELECT d.id, gen_random_uuid(), p.at, p.at, 1, k, CASE WHEN k = p.attempts AND p.state = 1 THEN 1 ELSE 15 END,
       CASE WHEN k = p.attempts AND p.state = 1 THEN 200 ELSE 503 END, 'case'
FROM d, p, generate_series(1, p.attempts) k`,
		n, map[string]int{"delivered": 1, "dead": 2, "cancelled": 3, "discarded": 4}[state], age, attempts, strings.Map(idRune, batch))
}

func idRune(r rune) rune {
	if r == ' ' || r == '-' {
		return '.'
	}
	return r
}

// left is how many deliveries there are.
func (b *theBench) left() int64 {
	b.t.Helper()
	return testbed.QueryInt(b.t, b.db, `SELECT count(*) FROM whctl.deliveries`)
}

// sweep runs a sweep of one policy that has to end well.
func (b *theBench) sweep(args ...string) swept {
	b.t.Helper()
	return oneOf[swept](b.t, b.must(0, append([]string{"sweep", "-o", "json"}, args...)...).Stdout)
}

func (b *theBench) preview(args ...string) previewed {
	b.t.Helper()
	return oneOf[previewed](b.t, b.must(0, append([]string{"dry-run", "cutoff", "-o", "json"}, args...)...).Stdout)
}

func oneOf[T any](t *testing.T, text string) T {
	t.Helper()
	var all []T
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 {
		t.Fatalf("want one row, got %s: %v", text, err)
	}
	return all[0]
}

const delivered30d = "  delivered: {version: 1, states: [delivered, cancelled, discarded], keep: 30d}\n"

// H46: batches and their book.
func TestBatchesAndTheirBook(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(12345, "delivered", "40 days", 3)
	oldest := testbed.QueryString(t, b.db, `SELECT string_agg(id::text, ',') FROM (SELECT id FROM whctl.deliveries ORDER BY finished_at DESC, id DESC LIMIT 7345) d`)
	for i, want := range []int64{5000, 5000, 2345} {
		s := b.sweep("--batch-size", "1000", "--max-batches", "5", "--pause", "0s")
		if s.Deleted.Deliveries != want || s.Deleted.Attempts != 3*want || s.AlreadyDone != 5*i {
			t.Fatalf("run %d removed %+v, want %d deliveries", i+1, s, want)
		}
		if wantBy := []string{"max_batches", "max_batches", "drained"}[i]; s.StoppedBy != wantBy || *s.Remaining != max(0, 12345-5000*int64(i+1)) {
			t.Errorf("run %d stopped by %s with %d remaining", i+1, s.StoppedBy, *s.Remaining)
		}
		if i == 0 {
			if rest := testbed.QueryString(t, b.db, `SELECT string_agg(id::text, ',') FROM (SELECT id FROM whctl.deliveries ORDER BY finished_at DESC, id DESC) d`); rest != oldest {
				t.Error("what is left are not the youngest")
			}
		}
	}
	if n := testbed.QueryInt(t, b.db, `SELECT sum(deliveries) FROM whctl.sweep_batches`); n != 12345 {
		t.Errorf("the ledger counts %d", n)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.sweep_batches WHERE deliveries = 1000`); n != 12 {
		t.Errorf("%d full batches in the ledger, want 12", n)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(DISTINCT cutoff) FROM whctl.sweep_batches`); n != 1 {
		t.Errorf("%d cutoffs for one sweep", n)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT (SELECT count(*) FROM whctl.envelopes) + (SELECT count(*) FROM whctl.attempts)`); n != 0 {
		t.Errorf("%d rows stayed without their delivery", n)
	}
	if s := b.sweep(); s.Deleted.Deliveries != 0 || s.Batches != 0 || s.StoppedBy != "drained" {
		t.Errorf("a repeat did %+v", s)
	}
	b.must(0, "sweep", "verify")
}

// H47: not everything old may go.
func TestNotEverythingOldMayGo(t *testing.T) {
	for name, policies := range map[string]string{
		"no policy": "", "a policy": delivered30d,
		"dead letters in it": "  all: {version: 1, states: [delivered, dead, discarded], keep: 60d}\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if policies != "" {
				b.retention(policies)
			}
			for _, state := range []string{"delivered", "dead", "discarded", "cancelled"} {
				b.finished(1, state, "31 days", 1)
			}
			b.finished(2, "delivered", "31 days", 1) // one becomes due, one leased
			testbed.Plant(t, b.db, `UPDATE whctl.deliveries SET state = 0, finished_at = NULL, next_attempt_at = now() - interval '31 days', class = NULL, status = NULL,
				attempt_id = CASE id % 2 WHEN 0 THEN gen_random_uuid() END, lease_owner = CASE id % 2 WHEN 0 THEN 'w' END, lease_expires_at = CASE id % 2 WHEN 0 THEN now() END
				WHERE id IN (SELECT id FROM whctl.deliveries ORDER BY id DESC LIMIT 2)`)
			p := b.preview("--older-than", "30d")
			s := b.sweep("--older-than", "30d")
			want := int64(3)
			if name == "dead letters in it" {
				want = 2 // the policy does not name what was cancelled
			}
			if s.Deleted.Deliveries != want || p.Removable != want || b.left() != 6-want {
				t.Errorf("removed %d, previewed %d, left %d", s.Deleted.Deliveries, p.Removable, b.left())
			}
			if p.Protected.InFlight != 1 || p.Protected.NotTerminal != 1 || p.Protected.Dead != 1 {
				t.Errorf("protected %+v", p.Protected)
			}
			if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.deliveries WHERE state = 0 OR state = 2`); n != 3 {
				t.Errorf("%d of due, leased and dead are left", n)
			}
		})
	}
}

// H48: preview and deed agree.
func TestPreviewAndDeedAgree(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(12000, "delivered", "30 days 1 minute", 2)
	b.finished(8000, "delivered", "29 days 23 hours 50 minutes", 2)
	books := `SELECT (SELECT count(*) FROM whctl.deliveries) || ' ' || (SELECT count(*) FROM whctl.sweeps) || ' ' || (SELECT count(*) FROM whctl.sweep_batches)`
	before := testbed.QueryString(t, b.db, books)
	for _, args := range [][]string{{}, {"--older-than", "30d"}, {"--before", time.Now().UTC().Add(-30 * 24 * time.Hour).Format(time.RFC3339)}} {
		p := b.preview(args...)
		if p.Candidates != 12000 || p.Removable != 12000 || *p.Attempts != 24000 || p.Batches != 12 || p.Estimated {
			t.Errorf("%v: previewed %+v", args, p)
		}
	}
	if after := testbed.QueryString(t, b.db, books); after != before {
		t.Errorf("a preview made %s of %s", after, before)
	}
	text := b.must(0, "dry-run", "cutoff").Stdout
	if !strings.Contains(text, "delivered would remove 12,000 deliveries that finished before ") || !strings.Contains(text, "Z") {
		t.Errorf("in words: %s", text)
	}
	if s := b.sweep("--max-batches", "100"); s.Deleted.Deliveries != 12000 || s.Deleted.Attempts != 24000 || b.left() != 8000 {
		t.Errorf("removed %+v, left %d", s, b.left())
	}
}

// H49: a day is 24 hours, whatever the zone.
func TestADayHas24Hours(t *testing.T) {
	b := newBench(t)
	b.env = []string{"TZ=America/New_York"}
	b.db.Set(t, "TimeZone", "America/New_York")
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	days := 30 // so many that exactly one change of the clocks lies in them
	offset := func(n int) int {
		_, o := time.Now().In(zone).AddDate(0, 0, -n).Zone()
		return o
	}
	for offset(days) == offset(0) {
		days++
	}
	b.finished(1, "delivered", fmt.Sprintf("%d hours 30 minutes", days*24), 1)
	b.finished(1, "delivered", fmt.Sprintf("%d hours 30 minutes", days*24-1), 1)
	s := b.sweep("--older-than", fmt.Sprint(days, "d"))
	if s.Deleted.Deliveries != 1 || b.left() != 1 {
		t.Errorf("%d days: removed %d", days, s.Deleted.Deliveries)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.deliveries WHERE finished_at > now() - $1 * interval '1 hour'`, days*24); n != 1 {
		t.Error("the younger one is gone")
	}
}

// H50: ages people type.
func TestAgesPeopleType(t *testing.T) {
	b := newBench(t)
	for _, age := range []string{"10 minutes", "2 days", "15 days", "100 days"} {
		b.finished(1, "delivered", age, 1)
	}
	for age, want := range map[string]int64{"90d": 1, "2w": 2, "36h": 3, "1d12h": 3} {
		hours := map[string]float64{"90d": 2160, "2w": 336, "36h": 36, "1d12h": 36}[age]
		p := b.preview("--older-than", age)
		if p.Candidates != want {
			t.Errorf("--older-than %s: %d candidates, want %d", age, p.Candidates, want)
		}
		b.configure(strings.Replace(settings, "max_attempts: 8", "max_attempts: 1", 1) + "retention:\n  redrive_window: 1h\n  delivered: {version: 1, states: [delivered], keep: " + age + "}\n")
		testbed.Exec(t, b.db, `DELETE FROM whctl.retention_policies`)
		p = b.preview()
		if p.Candidates != want || p.Compared.Keep != hours*3600 {
			t.Errorf("keep: %s: %d candidates kept for %g s, want %d", age, p.Candidates, p.Compared.Keep, want)
		}
		b.configure(settings)
	}
	for _, args := range [][]string{{"sweep", "--older-than", "6m"}, {"dry-run", "cutoff", "--older-than", "6m"}} {
		if r := b.must(64, args...); !strings.Contains(r.Stderr, "minutes") || !strings.Contains(r.Stderr, "months") {
			t.Errorf("%v: %s", args, r.Stderr)
		}
	}
	b.retention("  delivered: {version: 1, states: [delivered], keep: 6m}\n")
	if r := b.must(78, "sweep"); !strings.Contains(r.Stderr, "months") {
		t.Error(r.Stderr)
	}
	if b.left() != 4 {
		t.Errorf("%d left", b.left())
	}
}

// H51: zero and less.
func TestZeroAndLess(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(100, "delivered", "40 days", 1)
	for _, c := range []struct{ flag, value string }{
		{"--batch-size", "0"},
		{"--batch-size", "-1"},
		{"--batch-size", "999999999"},
		{"--max-batches", "0"},
		{"--max-batches", "-1"},
		{"--older-than", "0d"},
		{"--older-than", "-1d"},
		{"--older-than", ""},
		{"--before", "2999-01-01"},
		{"--before", "0001-01-01"},
		{"--before", "soon"},
		{"--before", ""},
		{"--max-time", "0s"},
		{"--pause", "-1s"},
		{"--max-lag", "0s"},
		{"--stop-file", ""},
		{"--policy", "nosuch"},
		{"--policy", ""},
	} {
		r := b.run("sweep", c.flag+"="+c.value)
		if name := strings.TrimLeft(c.flag, "-"); r.Code != 64 || !strings.Contains(r.Stderr, name) && c.value != "2999-01-01" {
			t.Errorf("%s=%s: exit %d: %s", c.flag, c.value, r.Code, r.Stderr)
		}
	}
	if b.left() != 100 {
		t.Errorf("%d left", b.left())
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.sweeps`); n != 0 {
		t.Errorf("%d sweeps were begun", n)
	}
}

// H52: killed sweeps.
func TestKilledSweeps(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(20000, "delivered", "40 days", 1)
	b.finished(500, "delivered", "20 days", 1)
	for range 30 {
		p := b.start("sweep", "--batch-size", "200", "--pause", "0s")
		timer := time.AfterFunc(time.Duration(rand.IntN(120))*time.Millisecond, p.Kill)
		<-p.Done()
		timer.Stop()
	}
	b.sweep("--batch-size", "200", "--pause", "0s")
	if n := testbed.QueryInt(t, b.db, `SELECT sum(deliveries) FROM whctl.sweep_batches`); n != 20000 || b.left() != 500 {
		t.Errorf("the ledger counts %d, %d are left", n, b.left())
	}
	b.must(0, "sweep", "verify")
}

// H53: children without an index.
func TestChildrenAreFoundByTheirIndex(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(30000, "delivered", "20 days", 2)
	b.finished(1000, "delivered", "40 days", 2)
	scans := func() string {
		return testbed.QueryString(t, b.db, `SELECT string_agg(relname || ' ' || seq_scan, ', ' ORDER BY relname) FROM pg_stat_user_tables WHERE schemaname = 'whctl' AND relname IN ('attempts', 'envelopes', 'deliveries')`)
	}
	testbed.Exec(t, b.db, `SELECT pg_stat_reset()`)
	before := scans()
	if s := b.sweep("--pause", "0s", "--batch-size", "100"); s.Deleted.Deliveries != 1000 || s.Deleted.Attempts != 2000 {
		t.Errorf("%+v", s)
	}
	testbed.Exec(t, b.db, `SELECT pg_stat_force_next_flush()`)
	if after := scans(); after != before {
		t.Errorf("sequential scans: %s, before: %s", after, before)
	}
}

// A policy that keeps for less time is looked at first; one that means something else has
// another version.
func TestAChangedPolicyIsLookedAtFirst(t *testing.T) {
	b := newBench(t)
	quick := strings.Replace(settings, "max_attempts: 8", "max_attempts: 1", 1)
	policy := func(version int, keep string) {
		b.configure(quick + fmt.Sprintf("retention:\n  redrive_window: 1h\n  delivered: {version: %d, states: [delivered], keep: %s}\n", version, keep))
	}
	b.finished(3, "delivered", "40 days", 1)
	b.finished(5, "delivered", "10 days", 1)
	policy(1, "30d")
	if s := b.sweep(); s.Deleted.Deliveries != 3 {
		t.Fatalf("%+v", s)
	}
	policy(1, "7d")
	if r := b.must(78, "sweep"); !strings.Contains(r.Stderr, "raise retention.delivered.version") {
		t.Error(r.Stderr)
	}
	policy(2, "7d")
	if r := b.must(3, "sweep"); !strings.Contains(r.Stderr, "whctl dry-run cutoff --policy delivered") {
		t.Error(r.Stderr)
	}
	if b.left() != 5 {
		t.Fatalf("%d left", b.left())
	}
	var diff []struct {
		NewlyExposed int64 `json:"newly_exposed"`
		Previewed    bool  `json:"previewed"`
	}
	if err := json.Unmarshal([]byte(b.must(0, "sweep", "diff", "-o", "json").Stdout), &diff); err != nil || len(diff) != 1 || diff[0].NewlyExposed != 5 || diff[0].Previewed {
		t.Errorf("diff %+v, %v", diff, err)
	}
	if p := b.preview("--policy", "delivered"); p.Compared.Keep != 30*24*3600 || p.Compared.Delta != 5 {
		t.Errorf("%+v", p.Compared)
	}
	if s := b.sweep(); s.Deleted.Deliveries != 5 {
		t.Errorf("%+v", s)
	}
	policy(3, "30d") // longer needs no look
	b.sweep()
	policy(2, "7d") // but going back to less does, again
	b.must(3, "sweep")
}

// The restart drill: a batch that was not stored is made again, whole; one that was, is not.
func TestRestartDrill(t *testing.T) {
	b := newBench(t)
	b.retention(delivered30d)
	b.finished(640, "delivered", "40 days", 1)
	testbed.Exec(t, b.db, `ALTER TABLE whctl.sweep_batches ADD CONSTRAINT no CHECK (false) NOT VALID`)
	b.must(1, "sweep")
	if b.left() != 640 || testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.sweep_batches`) != 0 {
		t.Fatal("half a batch is gone")
	}
	testbed.Exec(t, b.db, `ALTER TABLE whctl.sweep_batches DROP CONSTRAINT no`)
	p := b.start("sweep", "--batch-size", "640", "--pause", "1h")
	until(t, "the batch", func() bool { return b.left() == 0 })
	p.Kill()
	if s := b.sweep(); s.Deleted.Deliveries != 0 || s.AlreadyDone != 1 || s.StoppedBy != "drained" {
		t.Errorf("again: %+v", s)
	}
	if got := testbed.QueryString(t, b.db, `SELECT string_agg(deliveries::text, ',') FROM whctl.sweep_batches`); got != "640" {
		t.Errorf("in the ledger: %s", got)
	}
}

// A commit that is not answered is looked up: the batch counts once, in the summary as in
// the ledger.
func TestABatchWhoseCommitIsNotAnswered(t *testing.T) {
	for name, before := range map[string]bool{"stored": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.retention(delivered30d)
			b.finished(640, "delivered", "40 days", 1)
			link := testbed.Proxy(t, b.db.URL)
			b.url = link.URL(b.db.URL)
			var removing atomic.Bool
			batch := func(request []byte) bool {
				if testbed.Says("whctl.sweep_batches")(request) {
					removing.Store(true)
				}
				return removing.Load() && testbed.Says("COMMIT")(request)
			}
			cut := link.CutAfterAnswer
			if before {
				cut = link.CutBefore
			}
			done := cut(batch).Done
			if s := b.sweep(); s.Deleted.Deliveries != 640 || s.Batches != 1 {
				t.Errorf("%+v", s)
			}
			testbed.Await(t, "the cut", done)
			if got := testbed.QueryString(t, b.db, `SELECT string_agg(deliveries::text, ',') FROM whctl.sweep_batches`); got != "640" {
				t.Errorf("in the ledger: %s", got)
			}
		})
	}
}
