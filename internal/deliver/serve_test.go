package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// add puts deliveries into a table under way.
func (t *table) add(rows ...*row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		r.seq = len(t.rows) + t.next
		t.rows = append(t.rows, r)
	}
}

// serving runs a worker until stop is called, which answers with its summary.
func serving(t *testing.T, store *table, o Options) (stop func() Summary) {
	ctx, cancel := context.WithCancel(t.Context())
	var sum Summary
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sum, err = Serve(ctx, store, o)
	}()
	return func() Summary {
		cancel()
		<-ended
		if err != nil || sum.StoppedBy != Signal {
			t.Errorf("ended by %s with %v, want by a signal", sum.StoppedBy, err)
		}
		return sum
	}
}

func TestServeIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, wake := newTable(), make(chan struct{}, 1)
		sent := make(chan time.Time, 1)
		o := options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			sent <- time.Now()
			return ok(ctx, c)
		})
		o.Wake = wake
		stop := serving(t, store, o)
		synctest.Wait()
		store.add(due(1, 1)...)
		wake <- struct{}{}
		woken := time.Now()
		if took := (<-sent).Sub(woken); took > 10*time.Millisecond {
			t.Errorf("sent after %s", took)
		}
		if sum := stop(); sum.Delivered != 1 || store.left != 1 {
			t.Errorf("summary %+v, left %d times", sum, store.left)
		}
	})
}

func TestServePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable()
		sent := make(chan time.Time, 1)
		stop := serving(t, store, options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			sent <- time.Now()
			return ok(ctx, c)
		}))
		synctest.Wait()
		store.add(due(1, 1)...)
		added := time.Now()
		if took := (<-sent).Sub(added); took > pollEvery {
			t.Errorf("sent after %s without a notice", took)
		}
		stop()
	})
}

// An idle worker does not look who has work more often than it polls.
func TestServeDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 10)...)
		store.health[1] = work.Health{Pause: work.Pause{At: time.Unix(1, 0), By: "ann"}}
		stop := serving(t, store, options(4, ok))
		<-time.After(time.Minute)
		stop()
		if store.surveys > 65 || store.claims > 2 {
			t.Errorf("%d scans and %d claims in an idle minute", store.surveys, store.claims)
		}
	})
}

func TestServeWakesForWhatBecomesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable()
		sent := make(chan time.Time, 1)
		stop := serving(t, store, options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			sent <- time.Now()
			return ok(ctx, c)
		}))
		synctest.Wait()
		due := due(1, 1)
		due[0].due, due[0].at = false, store.asOf().Add(1300*time.Millisecond)
		store.add(due...)
		added := time.Now()
		if took := (<-sent).Sub(added); took < 1300*time.Millisecond || took > 1310*time.Millisecond {
			t.Errorf("sent after %s, want at its due time", took)
		}
		stop()
	})
}

// A worker sits out a database that is away, and goes on.
func TestServeSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 20)...)
		away := map[string]bool{}
		store.fail = func(call string) error {
			if away["all"] {
				return fmt.Errorf("%s: %w", call, work.ErrUnreachable)
			}
			return nil
		}
		gone := make(chan struct{})
		o := with(options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			if c.ID == 10 {
				store.mu.Lock()
				away["all"] = true
				store.mu.Unlock()
				close(gone)
			}
			return ok(ctx, c)
		}), func(p *policy.Policy) { p.Circuit.Failures = 0 })
		stop := serving(t, store, o)
		<-gone
		<-time.After(time.Minute)
		store.mu.Lock()
		away["all"] = false
		store.mu.Unlock()
		<-time.After(20 * time.Second)
		if sum := stop(); sum.Delivered != 20 || sum.Unrecorded != 0 {
			t.Errorf("summary %+v", sum)
		}
	})
}

// A worker that is stopped while the database is away ends after its grace, and says
// that something was not recorded.
func TestServeStopsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 1)...)
		store.fail = func(call string) error {
			if call == "record" {
				return work.ErrUnreachable
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-time.After(10 * time.Second)
			cancel()
		}()
		o := options(4, ok)
		o.Grace = 5 * time.Second
		start := time.Now()
		sum, err := Serve(ctx, store, o)
		if took := time.Since(start); took < 15*time.Second || took > 17*time.Second || sum.Unrecorded != 1 || !errors.Is(err, work.ErrUnreachable) {
			t.Errorf("after %s: %v, %+v", took, err, sum)
		}
	})
}

// What another fault than the database's absence ends is not sat out.
func TestServeEndsWithoutAGrant(t *testing.T) {
	store := newTable(due(1, 1)...)
	store.fail = func(call string) error {
		if call == "claim" {
			return work.ErrGrant
		}
		return nil
	}
	if sum, err := Serve(t.Context(), store, options(4, ok)); !errors.Is(err, work.ErrGrant) || sum.StoppedBy != Failed {
		t.Errorf("%v, %+v", err, sum)
	}
}

// A destination whose guard failed is tried again after a while.
func TestServeForgivesAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 3)...)
		broken := true
		o := options(4, ok)
		o.Guard = func(work.Claimed) func(context.Context) (bool, error) {
			return func(context.Context) (bool, error) {
				if broken {
					return false, errors.New("no table")
				}
				return true, nil
			}
		}
		stop := serving(t, store, o)
		<-time.After(10 * time.Second)
		store.mu.Lock()
		broken = false
		store.mu.Unlock()
		<-time.After(retiredFor)
		if sum := stop(); sum.Delivered != 3 || sum.Held != nil {
			t.Errorf("summary %+v", sum)
		}
	})
}

// A worker that is taken out just before it asks for the shares of what has come in makes
// itself known again, though it has no share that it could find that out with.
func TestServeIsTakenOutBeforeItAsksForShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, wake := newTable(due(1, 1)...), make(chan struct{}, 1)
		sent := make(chan int64, 10)
		o := options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			sent <- c.DestinationID
			return ok(ctx, c)
		})
		o.Wake = wake
		stop := serving(t, store, o)
		<-sent
		synctest.Wait()
		store.mu.Lock()
		store.forget = 1
		store.mu.Unlock()
		store.add(due(2, 1)...)
		wake <- struct{}{}
		select {
		case <-sent:
		case <-time.After(time.Second):
			t.Error("nothing was sent within a second")
		}
		stop()
	})
}

// A destination that cannot be made ready is said to be held back, once, and is tried again:
// what it lacks may have come.
func TestServeMakesReadyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan int64, 10)
		o := options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			sent <- c.DestinationID
			return ok(ctx, c)
		})
		var log strings.Builder // the handler writes one line at a time, and stop ends them
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		ready, made := o.Endpoint, time.Now().Add(3*time.Minute)
		o.Endpoint = func(d work.Destination) (Endpoint, error) {
			if d.ID == 1 && time.Now().Before(made) {
				return Endpoint{}, errors.New("its key is missing")
			}
			return ready(d)
		}
		told := &holds{}
		o.Observe = told
		stop := serving(t, newTable(append(due(1, 1), due(2, 1)...)...), o)
		if id := <-sent; id != 2 {
			t.Fatalf("sent to destination %d", id)
		}
		<-time.After(20 * time.Second)
		if n := told.of(work.HoldNotReady); n != 1 {
			t.Errorf("told: %d destinations that are not ready, want 1", n)
		}
		select {
		case <-sent:
		case <-time.After(5 * time.Minute):
			t.Error("it is held back for ever")
		}
		if sum := stop(); sum.Held != nil {
			t.Errorf("held at the end: %v", sum.Held)
		}
		for _, line := range []string{`hold=not_ready why="its key is missing"`, `msg="destination no longer held back" destination=d1 hold=not_ready`} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%s: said %d times:\n%s", line, n, log.String())
			}
		}
		if n := told.of(work.HoldNotReady); n != 0 {
			t.Errorf("told at the end: %d destinations that are not ready", n)
		}
	})
}

// holds is an observer that keeps what was told last of destinations held back.
type holds struct {
	unobserved
	mu     sync.Mutex
	last   map[work.Hold]int
	counts int
}

func (h *holds) Backlog(int64, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts++
}

// counted is how often what is due was counted.
func (h *holds) counted() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

func (h *holds) Held(destinations map[work.Hold]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = destinations
}

func (h *holds) of(why work.Hold) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[why]
}

// Where looking is dear, what has become due is waited for until the worker may look again,
// and not asked about each millisecond.
func TestServeSleepsUntilItMayLook(t *testing.T) {
	r := &run{o: options(4, ok), serve: true}
	r.clock.set(time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC))
	r.nextDue = r.clock.asOf.Add(-time.Second)
	r.lanes.scanned, r.lanes.cost = time.Now().Add(-time.Minute), time.Minute
	for _, moved := range []bool{false, true} {
		r.lanes.moved = moved
		if wait, _ := r.next(); wait < 3*time.Minute || wait > 4*time.Minute {
			t.Errorf("moved %t: wait %s", moved, wait)
		}
	}
}

// A worker that counts what is due for its observer is not silent meanwhile for so long
// that the others take it for gone.
func TestServeIsNotSilentWhileItCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 1)...)
		store.endless = true
		o := options(4, ok)
		o.Observe = unobserved{}
		stop := serving(t, store, o)
		<-time.After(10 * time.Minute)
		stop()
		for i := 1; i < len(store.beats); i++ {
			if gap := store.beats[i].Sub(store.beats[i-1]); gap > 2*time.Second {
				t.Errorf("silent for %s", gap)
			}
		}
		if len(store.beats) < 600 {
			t.Errorf("%d beats in ten minutes", len(store.beats))
		}
	})
}
