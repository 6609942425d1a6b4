package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
)

// H01: a worker that comes back late must not undo what another has done meanwhile.
func TestH01AWorkerThatComesBackLate(t *testing.T) {
	b := newBench(t)
	defer b.check()
	release := make(chan struct{})
	var first sync.Once
	r := b.receiver("r", func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		held := false
		first.Do(func() { held = true })
		if held {
			req.Hold(release)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	id := b.due("r", 1)[0]
	// With a limit it claims no more: it must not be stopped inside a claim.
	a := b.start("deliver", "--once", "--limit", "1", "--worker-id", "a")
	r.Wait(1)
	a.Signal(syscall.SIGSTOP)
	b.leasesRunOut()
	if s := b.once("--worker-id", "b"); s.Delivered != 1 || s.LostRecovered != 1 {
		t.Errorf("b's summary %+v", s)
	}
	before := testbed.QueryString(t, b.db, `SELECT row_to_json(x)::text FROM whctl.delivery_status x`)
	close(release)
	a.Signal(syscall.SIGCONT)
	if res := a.Wait(); res.Code != 0 {
		t.Errorf("a: exit %d\n%s", res.Code, res.Stderr)
	}
	if after := testbed.QueryString(t, b.db, `SELECT row_to_json(x)::text FROM whctl.delivery_status x`); after != before {
		t.Errorf("the late worker changed the row:\n%s\n%s", before, after)
	}
	if got := b.history(id); got != "1.1 lost, 1.2 ok" {
		t.Errorf("history %q", got)
	}
}

// H02: nothing waits under a lease for its turn.
func TestH02NothingIsClaimedAhead(t *testing.T) {
	b := newBench(t)
	defer b.check()
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 20)
	a := b.start("deliver", "--once", "--concurrency", "1")
	r.Wait(1)
	if n := b.count(`state = 'leased'`); n != 1 {
		t.Errorf("%d are leased with one place, want 1", n)
	}
	c := b.start("deliver", "--once", "--concurrency", "1")
	r.Wait(2)
	close(gate)
	for _, p := range []*testbed.Process{a, c} {
		if res := p.Wait(); res.Code != 0 {
			t.Errorf("exit %d: %s", res.Code, res.Stderr)
		}
	}
	b.eachOnce(ids, r)
}

func TestH02ALeaseShorterThanARequestIsRefused(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	b.due("r", 1)
	b.configure(strings.NewReplacer("timeout: 2s", "timeout: 5s", "lease: 10s", "lease: 2s").Replace(settings))
	res := b.must(78, "deliver", "--once")
	if !strings.Contains(res.Stderr, "lease") {
		t.Errorf("stderr does not name the lease: %s", res.Stderr)
	}
	if r.Count() != 0 {
		t.Errorf("%d requests were made", r.Count())
	}
}

// H03: killed in the middle of a POST.
func TestH03KilledInTheMiddleOfAPost(t *testing.T) {
	b := newBench(t)
	defer b.check()
	gate := make(chan struct{})
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 10)
	a := b.start("deliver", "--once", "--concurrency", "8")
	r.Wait(8)
	a.Kill()
	close(gate)
	interrupted := keys(r)
	b.once()
	for id := range interrupted {
		if n := keys(r)[id]; n != 1 {
			t.Errorf("%s was sent again under its lease: %d requests", id, n)
		}
	}
	b.leasesRunOut()
	b.once()
	for _, id := range ids {
		want := "1.1 ok"
		if interrupted[id] > 0 {
			want = "1.1 lost, 1.2 ok"
		}
		if got := b.history(id); got != want {
			t.Errorf("%s: history %q, want %q", id, got, want)
		}
	}
}

// H04: SIGTERM with work in hand.
func TestH04SigtermWithWorkInHand(t *testing.T) {
	b := newBench(t)
	defer b.check()
	gate := make(chan struct{})
	var open sync.WaitGroup
	open.Add(4)
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 40)
	p := b.start("deliver", "--once", "--concurrency", "4", "-o", "json", "--log-level", "debug")
	r.Wait(4)
	p.Signal(syscall.SIGTERM)
	p.WaitStderr("stopping")
	close(gate)
	res := p.Wait()
	if res.Code != 143 {
		t.Errorf("exit %d, want 143: %s", res.Code, res.Stderr)
	}
	if s := b.summaryOf(res); s.StoppedBy != "signal" || s.Delivered != 4 || r.Count() != 4 {
		t.Errorf("summary %+v, %d requests; want the 4 in flight and no more", s, r.Count())
	}
	if n := b.count(`state = 'scheduled' AND attempts = 0`); n != 36 {
		t.Errorf("%d are claimable with no attempt charged, want 36", n)
	}
	b.once()
	b.eachOnce(ids, r)
}

// H05: a row that kills its worker comes to an end.
func TestH05ARowThatKillsTheWorker(t *testing.T) {
	b := newBench(t)
	defer b.check()
	poison := ""
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		if strings.Contains(string(req.Body), `"poison"`) {
			req.Hold(nil) // for ever
		}
	})
	b.due("r", 5)
	poison = b.db.Enqueue(t, "r", "poison", `"poison"`)
	for range 9 {
		had := keys(r)[poison]
		p := b.start("deliver", "--once")
		if had < 8 {
			r.WaitFor("the poisoned delivery", func([]*testbed.Request) bool { return keys(r)[poison] > had })
			p.Kill()
		} else if res := p.Wait(); res.Code != 0 {
			t.Errorf("exit %d: %s", res.Code, res.Stderr)
		}
		b.leasesRunOut()
	}
	b.once()
	if n := keys(r)[poison]; n != 8 {
		t.Errorf("the poisoned delivery was sent %d times, want 8", n)
	}
	if got := b.status(poison, "state"); got != "dead" {
		t.Errorf("state %s, want dead", got)
	}
	if got := testbed.QueryString(t, b.db, `SELECT whctl.reason_word(reason) FROM whctl.deliveries WHERE state = 2`); got != "lost" {
		t.Errorf("reason %q, want lost", got)
	}
	if n := b.count(`state = 'delivered'`); n != 5 {
		t.Errorf("%d good rows are delivered, want 5", n)
	}
}

// H21: one hanging endpoint delays nobody else.
func TestH21OneHangingEndpoint(t *testing.T) {
	b := newBench(t)
	defer b.check()
	a := b.receiver("a", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(nil) })
	b.due("a", 200)
	good := b.receiver("b", nil)
	ids := b.due("b", 20)
	p := b.start("deliver", "--once", "--concurrency", "8")
	good.WaitAnswered(20)
	if n := a.Count(); n > 60 {
		t.Errorf("%d of a's rows were tried before b's were delivered, want at most 60", n)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
	b.eachOnce(ids, good)
}

// H22: any number of ticks at the same moment.
func TestH22TicksAtOnce(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	ids := b.due("r", 200)
	b.ticks(4)
	b.eachOnce(ids, r)
}

// The same where the role asks for an isolation under which they would fail each other.
func TestTicksUnderSerializable(t *testing.T) {
	b := newBench(t)
	defer b.check()
	testbed.Exec(t, b.db, `ALTER DATABASE `+b.db.Name+` SET default_transaction_isolation = 'serializable'`)
	r := b.receiver("r", nil)
	ids := b.due("r", 200)
	b.ticks(4)
	b.eachOnce(ids, r)
}

func TestEightRunsShareFiveThousand(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	ids := b.due("r", 5000)
	b.ticks(8)
	b.eachOnce(ids, r)
}

// ticks starts n runs at once; all must end with 0 and without a word of error.
func (b *theBench) ticks(n int) {
	b.t.Helper()
	var ps []*testbed.Process
	for i := range n {
		ps = append(ps, b.start("deliver", "--once", "--quiet", "--worker-id", fmt.Sprint("w", i)))
	}
	for _, p := range ps {
		if res := p.Wait(); res.Code != 0 || res.Stderr != "" || res.Stdout != "" {
			b.t.Errorf("exit %d, stdout %q, stderr %q; want a silent 0", res.Code, res.Stdout, res.Stderr)
		}
	}
}

// H40: planner settings must not make a claim larger than the places.
func TestH40TheClaimHasALimit(t *testing.T) {
	b := newBench(t)
	defer b.check()
	for _, s := range []string{"hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize", "indexscan", "bitmapscan", "indexonlyscan"} {
		b.db.Set(t, "enable_"+s, "off")
	}
	gate := make(chan struct{}, 50)
	r := b.receiver("r", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
	ids := b.due("r", 50)
	p := b.start("deliver", "--once", "--concurrency", "5")
	for n := 5; n <= 50; n += 5 {
		r.Wait(n)
		if leased := b.count(`state = 'leased'`); leased > 5 {
			t.Errorf("%d are leased at once with five places", leased)
		}
		for range 5 {
			gate <- struct{}{}
		}
	}
	if res := p.Wait(); res.Code != 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	b.eachOnce(ids, r)
}
