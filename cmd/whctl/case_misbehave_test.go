package main

import (
	"database/sql"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/checker"
	"example.com/whctl/internal/testbed"
)

// misbehaviour is a configuration for receivers that hang: they cost two seconds each,
// and there are places enough. One destination is given time.
const misbehaviour = `
policies:
  default: {max_attempts: 8, timeout: 2s, lease: 10s, backoff: {type: fixed, delay: 1h}, retry_after_max: 0s, circuit: {failures: 0}, body: raw, max_in_flight: 64, success_body_max: 200}
  patient: {extends: default, timeout: 2m, lease: 3m}
egress: {allow_cidrs: [127.0.0.1/32], require_https: false, ca_file: %CA%}
`

// Ten thousand deliveries to receivers that misbehave at random in every way: whatever
// they do, each POST that one of them began to read is one attempt on record, nothing is
// delivered but by a status line of its own, and memory stays bounded.
func TestTenThousandMisbehaviours(t *testing.T) {
	const rows = 10000
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("WHCTL_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("WHCTL_TEST_SEED=%d", seed)
	b := newBench(t)
	b.configure(misbehaviour)
	m := newMisbehaver(t, seed)
	for _, name := range []string{"plain-1", "plain-2", "plain-3", "plain-4", "secure"} {
		r := testbed.Raw(t, m.serve, testbed.ReceiverOptions{Plain: name != "secure"})
		b.db.Destination(t, name, r.URL)
	}
	measured := make(chan struct{})
	last := testbed.Receiver(t, testbed.ReceiverOptions{Handler: func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(measured) }})
	b.db.Destination(t, "last", last.URL)
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET policy = 'patient' WHERE name = 'last'`)
	// A hundred payloads are larger than what sockets buffer.
	n := testbed.QueryInt(t, b.db, `
SELECT count(*) FROM generate_series(1, $1::int) n, whctl.enqueue(
  (ARRAY['plain-1', 'plain-2', 'plain-3', 'plain-4', 'secure'])[n % 5 + 1], 'case', 's' || n,
  convert_to('{"n":' || n || CASE n % 100 WHEN 0 THEN ',"x":"' || repeat('x', 250000) || '"' ELSE '' END || '}', 'UTF8'), delivery_id => 'n-' || n) e
WHERE e.result = 'enqueued'`, rows)
	b.due("last", 1)
	p := b.start("deliver", "--once", "-o", "json", "--log-level", "warn")
	b.allButOne(n)
	if peak := peakMemory(t, p.PID); peak > 100<<20 {
		t.Errorf("%d MiB of memory", peak>>20)
	} else {
		t.Logf("%d MiB of memory", peak>>20)
	}
	close(measured)
	res := p.Wait()
	if s := b.summaryOf(res); res.Code != 0 || s.Claimed != rows+1 || s.Delivered+s.Retried+s.Dead != rows+1 {
		t.Errorf("exit %d, summary %+v\n%s", res.Code, s, res.Stderr)
	}
	b.compare(m, last)
}

// allButOne waits until n deliveries have been attempted and recorded.
func (b *theBench) allButOne(n int64) {
	b.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		done := testbed.QueryInt(b.t, b.db, `SELECT count(*) FROM whctl.attempts`)
		if done >= n {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			b.t.Fatalf("only %d of %d were attempted", done, n)
		}
	}
}

// attempted is an attempt on record.
type attempted struct {
	AttemptID  string        `db:"attempt_id"`
	DeliveryID string        `db:"delivery_id"`
	Class      string        `db:"class"`
	Status     sql.NullInt64 `db:"status"`
	State      string        `db:"state"`
}

// compare holds the log of the receivers against the tables.
func (b *theBench) compare(m *misbehaver, others ...*testbed.Endpoint) {
	b.t.Helper()
	var rows []attempted
	err := b.db.Admin.SelectContext(b.t.Context(), &rows, `
SELECT a.attempt_id::text, a.delivery_id, a.class, a.status, s.state
FROM whctl.attempt_history a JOIN whctl.delivery_status s USING (delivery_id) WHERE s.destination <> 'last'`)
	if err != nil {
		b.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	byID, seen := map[string]*treated{}, make([]checker.Seen, 0, len(m.log))
	for _, e := range m.log {
		if byID[e.AttemptID] != nil {
			b.t.Errorf("attempt %s was POSTed twice: as %s and %s", e.AttemptID, byID[e.AttemptID].name, e.name)
		}
		byID[e.AttemptID] = e
		seen = append(seen, e.Seen)
	}
	b.judge(rows, byID)
	for _, r := range others {
		seen = append(seen, r.Seen()...)
	}
	found, err := checker.Check(b.t.Context(), b.db.Admin.DB, "whctl", seen, checker.CompleteLog(), checker.MaxAttempts(8))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, v := range found {
		b.t.Error(v)
	}
}

// judge looks at each row's one attempt with what the receiver did, if that ever read its POST.
// Where the machine was too slow for the time limit, any conduct may end as a timeout;
// of each, most do not.
func (b *theBench) judge(rows []attempted, byID map[string]*treated) {
	b.t.Helper()
	asMeant, of := map[string]int{}, map[string]int{}
	read := 0
	for _, a := range rows {
		e := byID[a.AttemptID]
		switch {
		case e == nil && (a.Status.Valid || a.State == "delivered"):
			b.t.Errorf("%s is %s by %s, %d, and no receiver read its POST", a.DeliveryID, a.State, a.Class, a.Status.Int64)
			continue
		case e == nil:
			continue
		}
		read++
		of[e.name]++
		switch {
		case a.Class == "timeout" && !a.Status.Valid && a.State != "delivered":
			if e.class == "timeout" {
				asMeant[e.name]++
			}
		case !slices.Contains(strings.Fields(e.class), a.Class), a.Status.Valid && a.Status.Int64 != int64(e.conduct.status),
			(a.State == "delivered") != (a.Class == "ok"):
			b.t.Errorf("%s (%s): class %s, status %d, %s; want %s with %d", a.DeliveryID, e.name, a.Class, a.Status.Int64, a.State, e.class, e.conduct.status)
		default:
			asMeant[e.name]++
		}
	}
	for name, n := range of {
		if asMeant[name]*2 < n {
			b.t.Errorf("%s: only %d of %d attempts ended as they had to", name, asMeant[name], n)
		}
	}
	if read != len(byID) || read*10 < len(rows)*8 || len(of) != len(conducts()) {
		b.t.Errorf("%d attempts, %d of them read, %d POSTs, %d conducts", len(rows), read, len(byID), len(of))
	}
}
