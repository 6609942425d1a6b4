package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
)

// worker starts deliver without --once.
func (b *theBench) worker(args ...string) *testbed.Process {
	b.t.Helper()
	return b.start(append([]string{"deliver", "-o", "json", "--log-format", "json"}, args...)...)
}

// stop ends a worker as an operator does, and answers with its summary.
func (b *theBench) stop(p *testbed.Process) summary {
	b.t.Helper()
	p.Signal(syscall.SIGTERM)
	res := p.Wait()
	if res.Code != 0 {
		b.t.Errorf("a worker that was stopped ended with %d: %s", res.Code, res.Stderr)
	}
	s := b.summaryOf(res)
	if s.StoppedBy != "signal" {
		b.t.Errorf("stopped by %q", s.StoppedBy)
	}
	return s
}

// settled waits until n deliveries are in a state.
func (b *theBench) settled(n int64, state string) {
	b.t.Helper()
	until(b.t, "deliveries to be "+state, func() bool { return b.count(`state = $1`, state) >= n })
}

// up starts a worker and waits until it has delivered one.
func (b *theBench) up(destination string, r *testbed.Endpoint, args ...string) (*testbed.Process, string) {
	b.t.Helper()
	before := r.Count()
	p := b.worker(args...)
	id := b.db.Enqueue(b.t, destination, "first", `{"first":true}`)
	r.WaitAnswered(before + 1)
	return p, id
}

// What is put in goes out when it is put in: one after the other, these would take longer
// than a test may if each had to wait until the worker looks by itself.
func TestAWorkerDeliversWhatIsPutIn(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	waiting := b.due("r", 3) // from before it started
	p, first := b.up("r", r)
	r.WaitAnswered(4)
	ids := append(waiting, first)
	for i := range 40 {
		ids = append(ids, b.db.Enqueue(t, "r", "later"+string(rune('a'+i)), `{}`))
		r.WaitAnswered(len(ids))
	}
	if s := b.stop(p); s.Delivered != len(ids) || s.Claimed != len(ids) {
		t.Errorf("summary %+v, want %d delivered", s, len(ids))
	}
	b.eachOnce(ids, r)
}

// Nothing notifies the worker of a retry: it has to know when one becomes due.
func TestAWorkerSendsWhatBecomesDue(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(strings.Replace(settings, "backoff: {type: exponential, base: 30s, cap: 1h, jitter: 0.2}", "backoff: {type: fixed, delay: 300ms}", 1))
	r := b.receiver("r", testbed.Script(503, 503, 200))
	p := b.worker()
	id := b.db.Enqueue(t, "r", "s", `{}`)
	r.WaitAnswered(3)
	later := testbed.QueryString(t, b.db, `SELECT delivery_id FROM whctl.enqueue('r', 'case', 'later', '{}', not_before => now() + interval '700 ms')`)
	r.WaitAnswered(4)
	b.settled(2, "delivered")
	if s := b.stop(p); s.Delivered != 2 || s.Retried != 2 {
		t.Errorf("summary %+v", s)
	}
	if got := b.history(id) + "; " + b.history(later); got != "1.1 unavailable, 1.2 unavailable, 1.3 ok; 1.1 ok" {
		t.Errorf("history %q", got)
	}
}

// An idle worker that is stopped has done what it was asked.
func TestAnIdleWorkerIsStopped(t *testing.T) {
	b := newBench(t)
	defer b.check()
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		name := signal.String()
		r := b.receiver(name, nil)
		p, _ := b.up(name, r)
		b.settled(1, "delivered")
		p.Signal(signal)
		if res := p.Wait(); res.Code != code || b.summaryOf(res).StoppedBy != "signal" {
			t.Errorf("%s: exit %d, want %d: %s%s", name, res.Code, code, res.Stdout, res.Stderr)
		}
	}
	r := b.receiver("quiet", nil)
	p, _ := b.up("quiet", r, "--quiet")
	p.Signal(syscall.SIGTERM)
	if res := p.Wait(); res.Code != 0 || res.Stdout != "" || res.Stderr != "" {
		t.Errorf("quiet: exit %d, stdout %q, stderr %q", res.Code, res.Stdout, res.Stderr)
	}
}

// A worker that is stopped before it has begun has nothing to tell.
func TestAWorkerIsStoppedWhileItConnects(t *testing.T) {
	b := newBench(t)
	defer b.check()
	link := testbed.Proxy(t, b.db.URL)
	b.url = link.URL(b.db.URL)
	link.Hold()
	p := b.worker()
	until(t, "the connection", func() bool { return link.Open() > 0 })
	p.Signal(syscall.SIGTERM)
	if res := p.Wait(); res.Code != 0 || res.Stdout != "" || strings.Contains(res.Stderr, "goroutine") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
}

func TestAWorkerIsStoppedWithWorkInHand(t *testing.T) {
	b := newBench(t)
	defer b.check()
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 40)
	p := b.worker("--concurrency", "4")
	r.Wait(4)
	p.Signal(syscall.SIGTERM)
	p.WaitStderr("stopping")
	late := b.db.Enqueue(t, "r", "late", `{}`) // nobody takes it up any more
	close(gate)
	if res := p.Wait(); res.Code != 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	} else if s := b.summaryOf(res); s.Delivered != 4 || r.Count() != 4 {
		t.Errorf("summary %+v, %d requests; want the 4 in flight and no more", s, r.Count())
	}
	if n := b.count(`state = 'scheduled' AND attempts = 0`); n != 37 {
		t.Errorf("%d are claimable with no attempt charged, want 37", n)
	}
	b.once()
	b.eachOnce(append(ids, late), r)
}

// Whoever signals twice does not want to wait. It ends by itself, with the signal's code: as
// the first process of a container it could not be killed by a signal that it leaves alone.
func TestASecondSignalEndsAWorkerAtOnce(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(nil) })
	b.due("r", 1)
	p := b.worker("--grace", "10m")
	r.Wait(1)
	p.Signal(syscall.SIGTERM)
	p.WaitStderr("stopping")
	until(t, "its end", func() bool { // what comes at once is one signal with the first
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
	if res := p.Wait(); res.Code != 143 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	if n := b.count(`state = 'leased'`); n != 1 {
		t.Errorf("%d are leased", n)
	}
}

// The grace is over and the receiver still says nothing: the attempt is on record as lost,
// and the worker has kept to its time.
func TestAWorkerKeepsToItsGrace(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(nil) })
	id := b.due("r", 1)[0]
	p := b.worker("--grace", "50ms")
	r.Wait(1)
	if s := b.stop(p); s.Retried != 1 {
		t.Errorf("summary %+v", s)
	}
	if got := b.history(id); got != "1.1 lost" {
		t.Errorf("history %q", got)
	}
}

// Postgres is restarted under a worker that has requests in flight and more to do.
func TestPostgresIsRestartedUnderAWorker(t *testing.T) {
	t.Parallel()
	db, server := testbed.AloneDB(t)
	b := &theBench{t: t, db: db, url: db.URL}
	b.configure(settings)
	defer b.check()
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 30)
	p := b.worker("--concurrency", "4")
	r.Wait(4)
	server.Halt()
	close(gate) // the answers come while there is nobody to record them
	r.WaitAnswered(4)
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the database", func() bool { return db.Admin.PingContext(t.Context()) == nil })
	b.settled(30, "delivered")
	ids = append(ids, b.db.Enqueue(t, "r", "afterwards", `{}`))
	b.settled(31, "delivered")
	s := b.stop(p)
	if s.Delivered != len(ids) {
		t.Errorf("summary %+v", s)
	}
	got := keys(r)
	for _, id := range ids {
		lost := int(testbed.QueryInt(t, db, `SELECT count(*) FROM whctl.attempt_history WHERE delivery_id = $1 AND class = 'lost'`, id))
		if got[id] > 1+lost || got[id] == 0 {
			t.Errorf("%s was sent %d times with %d lost attempts", id, got[id], lost)
		}
	}
}

// Down for longer than any call waits: the worker outlives it. A run from cron would end.
func TestAWorkerOutlivesALongOutage(t *testing.T) {
	b := newBench(t)
	defer b.check()
	link := testbed.Proxy(t, b.db.URL)
	b.url = link.URL(b.db.URL)
	r := b.receiver("r", nil)
	p, first := b.up("r", r)
	b.settled(1, "delivered")
	link.Refuse()
	p.WaitStderr("trying on") // it gave up once, and says so
	second := b.db.Enqueue(t, "r", "meanwhile", `{}`)
	link.Pass()
	b.settled(2, "delivered")
	b.stop(p)
	b.eachOnce([]string{first, second}, r)
}

// Without notifications the worker finds what is due by itself.
func TestAWorkerLooksByItself(t *testing.T) {
	t.Run("no trigger", func(t *testing.T) {
		b := newBench(t)
		defer b.check()
		testbed.Exec(t, b.db, `DROP TRIGGER deliveries_tell_workers ON whctl.deliveries`)
		r := b.receiver("r", nil)
		p, first := b.up("r", r)
		b.settled(1, "delivered")
		second := b.db.Enqueue(t, "r", "second", `{}`)
		r.WaitAnswered(2)
		b.stop(p)
		b.eachOnce([]string{first, second}, r)
	})
	t.Run("behind a pooler", func(t *testing.T) {
		b := newBench(t)
		defer b.check()
		b.url = testbed.Pooler(t, b.db, 3).URL
		r := b.receiver("r", nil)
		p, first := b.up("r", r)
		p.WaitStderr("do not pass a pooler")
		b.settled(1, "delivered")
		second := b.db.Enqueue(t, "r", "second", `{}`)
		r.WaitAnswered(2)
		b.stop(p)
		if strings.Contains(p.Stderr(), `"level":"WARN"`) {
			t.Errorf("stderr: %s", p.Stderr())
		}
		b.eachOnce([]string{first, second}, r)
	})
	t.Run("no session left to listen", func(t *testing.T) {
		b := newBench(t)
		defer b.check()
		role, dsn := b.db.Login(t, "whctl_worker")
		testbed.Exec(t, b.db, `ALTER ROLE `+role+` CONNECTION LIMIT 3`)
		b.url = dsn
		r := b.receiver("r", nil)
		p, first := b.up("r", r)
		b.settled(1, "delivered")
		second := b.db.Enqueue(t, "r", "second", `{}`)
		r.WaitAnswered(2)
		b.stop(p)
		b.eachOnce([]string{first, second}, r)
	})
}

// Two workers share the work; one is killed in the middle of its requests. The other takes
// them over when the leases have run out, and nobody else's.
func TestOneOfTwoWorkersIsKilled(t *testing.T) {
	b := newBench(t)
	defer b.check()
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 12)
	a := b.worker("--concurrency", "4", "--worker-id", "a")
	r.Wait(4)
	c := b.worker("--concurrency", "4", "--worker-id", "c")
	r.Wait(8)
	a.Kill()
	interrupted := map[string]bool{}
	for _, id := range ids {
		interrupted[id] = b.count(`delivery_id = $1 AND state = 'leased' AND EXISTS (
			SELECT FROM whctl.attempt_history h WHERE h.delivery_id = $1 AND h.worker = 'a')`, id) == 1
	}
	close(gate)
	b.settled(8, "delivered")
	b.leasesRunOut() // only the dead worker's are left
	b.settled(12, "delivered")
	if s := b.stop(c); s.Delivered != 12 || s.LostRecovered != 4 {
		t.Errorf("summary %+v", s)
	}
	for _, id := range ids {
		want := "1.1 ok"
		if interrupted[id] {
			want = "1.1 lost, 1.2 ok"
		}
		if got := b.history(id); got != want {
			t.Errorf("%s: history %q, want %q", id, got, want)
		}
	}
}

// Two workers that are woken by the same notification send each delivery once.
func TestTwoWorkersAreWokenAtOnce(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	a, first := b.up("r", r)
	c := b.worker()
	ids := append(b.due("r", 100), first)
	r.WaitAnswered(101)
	b.settled(101, "delivered")
	if x, y := b.stop(a), b.stop(c); x.Delivered+y.Delivered != 101 || x.LostRecovered+y.LostRecovered != 0 {
		t.Errorf("summaries %+v, %+v", x, y)
	}
	b.eachOnce(ids, r)
}

// What a worker tells a monitoring system, while it lives and in its file.
func TestAWorkerIsWatched(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", testbed.Script(200, 400))
	file := filepath.Join(t.TempDir(), "whctl.prom")
	p, _ := b.up("r", r, "--metrics-addr", "127.0.0.1:0", "--metrics-file", file)
	b.db.Enqueue(t, "r", "s-4711", `{"secret":"hunter2"}`)
	b.settled(1, "dead")
	p.WaitStderr("metrics are served")
	address := regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(p.Stderr())
	if address == nil {
		t.Fatalf("stderr: %s", p.Stderr())
	}
	get := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", path, answer.Status, err)
		}
		return string(text)
	}
	get("/healthz")
	wanted := []string{
		`whctl_deliveries_total{result="delivered"} 1`, `whctl_deliveries_total{result="dead"} 1`,
		`whctl_attempts_total{class="rejected"} 1`, `whctl_attempt_duration_seconds_count 2`, `whctl_in_flight 0`,
	}
	counted := func(text string) bool {
		for _, line := range wanted {
			if !strings.Contains(text, line+"\n") {
				return false
			}
		}
		return true
	}
	until(t, "the metrics", func() bool { return counted(get("/metrics")) })
	b.stop(p)
	text, err := os.ReadFile(file)
	if err != nil || !counted(string(text)) {
		t.Errorf("%v, the file:\n%s", err, text)
	}
	for _, secret := range []string{"hunter2", r.Address, "s-4711"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the metrics tell %q", secret)
		}
	}
}
