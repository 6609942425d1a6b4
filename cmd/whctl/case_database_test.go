package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
)

// H33: the write that happened twice.
func TestH33TheWriteThatHappenedTwice(t *testing.T) {
	for _, say := range []string{"whctl.attempts", "COMMIT"} {
		t.Run(say, func(t *testing.T) {
			b := newBench(t)
			defer b.check()
			link := testbed.Proxy(t, b.db.URL)
			b.url = link.URL(b.db.URL)
			gate := make(chan struct{})
			r := b.receiver("r", func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
				req.Hold(gate)
				w.WriteHeader(http.StatusInternalServerError)
			})
			ids := b.due("r", 10)
			p := b.start("deliver", "--once")
			r.Wait(10)
			cut := link.CutAfterAnswer(testbed.Says(say))
			close(gate)
			testbed.Await(t, "the cut", cut.Done)
			if res := p.Wait(); res.Code != 0 {
				t.Errorf("exit %d: %s", res.Code, res.Stderr)
			}
			b.once()
			if r.Count() != 10 {
				t.Errorf("%d POSTs, want 10", r.Count())
			}
			for _, id := range ids {
				if got := b.history(id); got != "1.1 unavailable" || b.status(id, "attempts") != "1" || b.status(id, "state") != "scheduled" {
					t.Errorf("%s: history %q, attempts %s, state %s", id, got, b.status(id, "attempts"), b.status(id, "state"))
				}
			}
		})
	}
}

// H34: a database that goes silent. (How long it takes is the benchmark's to tell; here
// it has to end by itself, with its code and one line, and without another POST.)
func TestH34ADatabaseThatGoesSilent(t *testing.T) {
	b := newBench(t)
	defer b.check()
	link := testbed.Proxy(t, b.db.URL)
	b.url = link.URL(b.db.URL)
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	b.due("r", 10)
	p := b.start("deliver", "--once", "--concurrency", "3")
	r.Wait(3)
	link.Hold()
	close(gate)
	res := p.Wait()
	if res.Code != 69 || !strings.Contains(res.Stderr, "database unreachable") {
		t.Errorf("exit %d, stderr %q; want 69 and a word on the database", res.Code, res.Stderr)
	}
	if r.Count() != 3 {
		t.Errorf("%d POSTs, want no other after the silence", r.Count())
	}
	link.Drop()
	link.Release()
	b.leasesRunOut()
	b.once()
	if n := b.count(`state = 'delivered'`); n != 10 {
		t.Errorf("%d delivered at last, want 10", n)
	}
}

// H35: backends terminated in mid-batch.
func TestH35BackendsTerminated(t *testing.T) {
	b := newBench(t)
	defer b.check()
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 50)
	p := b.start("deliver", "--once", "--concurrency", "10")
	r.Wait(10)
	testbed.Exec(t, b.db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app'`)
	close(gate)
	if res := p.Wait(); res.Code != 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	b.once()
	b.eachOnce(ids, r)
}

// H36: a pooler in transaction mode. (Sweeps and redrives join with their commands.)
func TestH36PoolerInTransactionMode(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.db = testbed.EmptyDB(t)
	pool := testbed.Pooler(t, b.db, 3)
	b.url = pool.URL
	b.must(0, "migrate", "up")
	r := b.receiver("r", nil)
	ids := b.due("r", 300)
	b.ticks(4)
	b.eachOnce(ids, r)
	b.must(0, "dlq", "list")
	b.must(0, "show", ids[0])
}

// H37: no transaction is open while a receiver thinks.
func TestH37NoTransactionWhileAReceiverThinks(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.db.Set(t, "idle_in_transaction_session_timeout", "500ms")
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 20)
	p := b.start("deliver", "--once")
	r.Wait(20)
	if n := testbed.QueryInt(t, b.db, `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app' AND state LIKE 'idle in%' AND clock_timestamp() - state_change > interval '200 ms'`); n != 0 {
		t.Errorf("%d sessions have a transaction open while the receiver thinks", n)
	}
	close(gate)
	if res := p.Wait(); res.Code != 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	b.eachOnce(ids, r)
}

// H43: past two thousand million.
func TestH43PastTwoThousandMillion(t *testing.T) {
	b := newBench(t)
	defer b.check()
	testbed.Exec(t, b.db, `
DO $$ DECLARE s regclass; BEGIN
  FOR s IN SELECT c.oid FROM pg_class c WHERE c.relkind = 'S' AND c.relnamespace = 'whctl'::regnamespace LOOP
    PERFORM setval(s, 2147483700);
  END LOOP;
END $$`)
	gate := make(chan struct{})
	var answers atomic.Int32
	r := b.receiver("r", func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		switch answers.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusBadRequest)
		default:
			req.Hold(gate)
		}
	})
	b.due("r", 4)
	p := b.start("deliver", "--once", "--concurrency", "1")
	r.Wait(3)
	p.Signal(syscall.SIGTERM)
	close(gate)
	if res := p.Wait(); res.Code != 143 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	b.dueAgain()
	b.once()
	list := b.must(0, "dlq", "list", "-o", "jsonl").Stdout
	if strings.Count(list, "\n") != 1 || b.count(`state = 'delivered'`) != 3 {
		t.Errorf("%d delivered, dead letters:\n%s", b.count(`state = 'delivered'`), list)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT min(id) FROM whctl.deliveries`); n <= 2147483700 {
		t.Errorf("row ids begin at %d", n)
	}
}

// H44: times at the edge are refused.
func TestH44TimesAtTheEdge(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.receiver("r", nil)
	id := b.due("r", 1)[0]
	for _, at := range []string{"infinity", "-infinity", "10000-01-01", "294276-12-31"} {
		var result string
		if err := b.db.Admin.GetContext(t.Context(), &result, `SELECT result FROM whctl.enqueue('r', 'case', $1, '{}', not_before => $1::timestamptz)`, at); err == nil {
			t.Errorf("enqueued with not_before %s: %s", at, result)
		}
		if _, err := b.db.Admin.ExecContext(t.Context(), `UPDATE whctl.deliveries SET next_attempt_at = $1::timestamptz`, at); err == nil {
			t.Errorf("the table took the due time %s", at)
		}
	}
	b.once()
	if got := b.status(id, "state"); got != "delivered" {
		t.Errorf("state %s, want delivered", got)
	}
}

// openBinary is the binary, where every user can start it.
func openBinary(t *testing.T) string {
	t.Helper()
	binary := testbed.Binary(t)
	for dir := filepath.Dir(binary); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return binary
}

// H66: a bare container: no environment, no passwd entry, nothing writable.
func TestH66BareContainer(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	ids := b.due("r", 3)
	for _, file := range []string{b.config, testbed.CAFile(t)} { // readable for the bare user
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		for dir := filepath.Dir(file); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	binary := openBinary(t)
	for _, args := range [][]string{{"--version"}, {"--help"}, {"deliver", "--once", "--quiet"}} {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = "/"
		cmd.Env = []string{"WHCTL_DATABASE_URL=" + b.url, "WHCTL_CONFIG=" + b.config, "TMPDIR=/nonexistent"}
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		}
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("whctl %s: %v: %s", strings.Join(args, " "), err, text)
		}
	}
	b.eachOnce(ids, r)
}

// What lies in a folder that a user may not look into was not meant for them.
func TestAFolderThatIsNobodysBusiness(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.Chmod(home, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), openBinary(t), "config", "show", "-o", "json")
	cmd.Dir, cmd.Env = "/", []string{"XDG_CONFIG_HOME=" + home}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// H68: two pods migrate.
func TestH68TwoPodsMigrate(t *testing.T) {
	b := newBench(t)
	defer b.check()
	for range 5 {
		b.db = testbed.EmptyDB(t)
		b.url = b.db.URL
		p, q := b.start("migrate", "up"), b.start("migrate", "up")
		for _, res := range []testbed.Result{p.Wait(), q.Wait()} {
			if res.Code != 0 {
				t.Errorf("exit %d: %s", res.Code, res.Stderr)
			}
		}
		if n := testbed.QueryInt(t, b.db, `SELECT count(*) - count(DISTINCT version_id) FROM whctl.migrations`); n != 0 {
			t.Errorf("%d versions are recorded more than once", n)
		}
	}
}

// H69: a binary that is older than the schema refuses before it touches anything.
func TestH69BinaryOlderThanTheSchema(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	id := b.due("r", 1)[0]
	testbed.Exec(t, b.db, `UPDATE whctl.schema_version SET version = version + 1`)
	for _, args := range [][]string{
		{"deliver", "--once"},
		{"enqueue", "--destination", "r", "--type", "t", "--payload", "-"},
		{"cancel", id, "--reason", "no"},
		{"dlq", "list"},
		{"show", id},
		{"destination", "list"},
		{"migrate", "up"},
	} {
		res := b.must(78, args...)
		if !strings.Contains(res.Stderr, "newer than this binary") {
			t.Errorf("whctl %s does not say which way round: %s", strings.Join(args, " "), res.Stderr)
		}
	}
	b.must(0, "--version")
	if r.Count() != 0 || b.status(id, "state") != "scheduled" {
		t.Errorf("%d requests, state %s", r.Count(), b.status(id, "state"))
	}
	testbed.Exec(t, b.db, `UPDATE whctl.schema_version SET version = version - 1`)
	b.must(0, "deliver", "--once")
}
