package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// theBench is what every case starts from: a database, and whctl with settings that
// make time visible (30 s base delay, 2 s a request).
type theBench struct {
	t      *testing.T
	db     *testbed.Database
	url    string // of the database as whctl is told, through a proxy or pooler perhaps
	config string
	env    []string
	seen   []*testbed.Endpoint
}

// settings is the configuration of the cases; %POLICY% is replaced by what a case adds.
const settings = `
policies:
  default:
    max_attempts: 8
    timeout: 2s
    lease: 10s
    backoff: {type: exponential, base: 30s, cap: 1h, jitter: 0.2}
    retry_after_max: 24h
    circuit: {failures: 0}
    body: raw
enqueue: {payload_max: 16MiB}
egress: {allow_cidrs: [127.0.0.1/32], ca_file: %CA%}
`

func newBench(t *testing.T) *theBench {
	t.Helper()
	t.Parallel()
	b := &theBench{t: t, db: testbed.DB(t)}
	b.url = b.db.URL
	b.configure(settings)
	return b
}

// check ends every case: the invariants hold, by the tables and by the receivers' logs.
func (b *theBench) check() {
	b.t.Helper()
	if !b.t.Failed() {
		testbed.Check(b.t, b.db, b.seen...)
	}
}

func (b *theBench) configure(yaml string) {
	b.t.Helper()
	b.config = testbed.Config(b.t, strings.ReplaceAll(yaml, "%CA%", testbed.CAFile(b.t)))
}

// receiver starts R and makes it a destination.
func (b *theBench) receiver(name string, h testbed.Handler) *testbed.Endpoint {
	b.t.Helper()
	r := testbed.Receiver(b.t, testbed.ReceiverOptions{Handler: h})
	b.destination(name, r)
	return r
}

func (b *theBench) destination(name string, r *testbed.Endpoint) {
	b.t.Helper()
	b.db.Destination(b.t, name, r.URL)
	b.seen = append(b.seen, r)
}

// due puts n deliveries in and returns their ids.
func (b *theBench) due(destination string, n int) []string {
	b.t.Helper()
	var ids []string
	err := b.db.Admin.SelectContext(b.t.Context(), &ids,
		`SELECT (whctl.enqueue($1, 'case', 's' || n, convert_to('{"n":' || n || '}', 'UTF8'))).delivery_id FROM generate_series(1, $2) n`, destination, n)
	if err != nil || len(ids) != n {
		b.t.Fatalf("enqueued %d of %d: %v", len(ids), n, err)
	}
	return ids
}

func (b *theBench) cmd(args ...string) testbed.Cmd {
	return testbed.Cmd{Args: args, Env: append([]string{"WHCTL_DATABASE_URL=" + b.url, "WHCTL_CONFIG=" + b.config}, b.env...)}
}

func (b *theBench) run(args ...string) testbed.Result {
	b.t.Helper()
	return testbed.Run(b.t, b.cmd(args...))
}

func (b *theBench) start(args ...string) *testbed.Process {
	b.t.Helper()
	return testbed.Start(b.t, b.cmd(args...))
}

// must runs a command that has to end with code.
func (b *theBench) must(code int, args ...string) testbed.Result {
	b.t.Helper()
	r := b.run(args...)
	if r.Code != code {
		b.t.Fatalf("whctl %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.Code, code, r.Stdout, r.Stderr)
	}
	return r
}

// summary is the JSON summary of a run.
type summary struct {
	WorkerID      string         `json:"worker_id"`
	Claimed       int            `json:"claimed"`
	Delivered     int            `json:"delivered"`
	Retried       int            `json:"retried"`
	Dead          int            `json:"dead"`
	Cancelled     int            `json:"cancelled"`
	LostRecovered int            `json:"lost_recovered"`
	Released      int            `json:"released"`
	Late          int            `json:"late"`
	HeldBack      map[string]int `json:"held_back"`
	DueRemaining  int            `json:"due_remaining"`
	ByClass       map[string]int `json:"by_class"`
	StoppedBy     string         `json:"stopped_by"`
}

// once is one run, which has to end with 0.
func (b *theBench) once(args ...string) summary {
	b.t.Helper()
	return b.summaryOf(b.must(0, append([]string{"deliver", "--once", "-o", "json"}, args...)...))
}

func (b *theBench) summaryOf(r testbed.Result) (s summary) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		b.t.Fatalf("summary: %v\nstdout: %s\nstderr: %s", err, r.Stdout, r.Stderr)
	}
	return s
}

// dueAgain puts the due time of everything that waits into the past.
func (b *theBench) dueAgain() {
	b.t.Helper()
	testbed.Exec(b.t, b.db, `UPDATE whctl.deliveries SET next_attempt_at = now() - interval '1 second' WHERE state = 0 AND attempt_id IS NULL`)
}

// leasesRunOut ends all leases.
func (b *theBench) leasesRunOut() {
	b.t.Helper()
	testbed.Exec(b.t, b.db, `UPDATE whctl.deliveries SET lease_expires_at = now() - interval '1 second' WHERE attempt_id IS NOT NULL`)
}

func (b *theBench) count(where string, args ...any) int64 {
	b.t.Helper()
	return testbed.QueryInt(b.t, b.db, `SELECT count(*) FROM whctl.delivery_status WHERE `+where, args...)
}

// history is the attempts of a delivery as "generation.attempt class", in order.
func (b *theBench) history(id string) string {
	b.t.Helper()
	return testbed.QueryString(b.t, b.db, `
SELECT string_agg(generation || '.' || attempt || ' ' || coalesce(class, 'open'), ', ' ORDER BY generation, attempt)
FROM whctl.attempt_history WHERE delivery_id = $1`, id)
}

func (b *theBench) status(id, column string) string {
	b.t.Helper()
	return testbed.QueryString(b.t, b.db, `SELECT `+column+`::text FROM whctl.delivery_status WHERE delivery_id = $1`, id)
}

// keys counts the requests of each idempotency key.
func keys(rs ...*testbed.Endpoint) map[string]int {
	n := map[string]int{}
	for _, e := range rs {
		for _, r := range e.Requests() {
			n[r.Key()]++
		}
	}
	return n
}

// eachOnce fails unless every id was requested exactly once.
func (b *theBench) eachOnce(ids []string, rs ...*testbed.Endpoint) {
	b.t.Helper()
	got := keys(rs...)
	for _, id := range ids {
		if got[id] != 1 {
			b.t.Errorf("key %s was requested %d times, want once", id, got[id])
		}
	}
	if len(got) != len(ids) {
		b.t.Errorf("%d keys were requested, want %d", len(got), len(ids))
	}
}
