package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDrains(t *testing.T) {
	store := newTable(slices.Concat(due(1, 300), due(2, 7))...)
	sum := once(t, t.Context(), store, options(16, ok))
	if sum.Delivered != 307 || sum.StoppedBy != Drained || left(sum) != 0 || sum.OldestDueAge != nil || sum.ByClass[work.OK] != 307 {
		t.Errorf("summary %+v", sum)
	}
	if sum.Latency.P50 == nil || *sum.Latency.Max != time.Millisecond {
		t.Errorf("latency %+v", sum.Latency)
	}
}

func TestNothingDue(t *testing.T) {
	sum := once(t, t.Context(), newTable(), options(16, ok))
	if sum.Claimed != 0 || sum.StoppedBy != Drained || sum.Latency.P50 != nil {
		t.Errorf("summary %+v", sum)
	}
}

// What is due may all be leased by others. The run must not spin on it.
func TestForeignLeasesAreLeftAlone(t *testing.T) {
	rows := due(1, 50)
	for _, r := range rows {
		r.foreign = true
	}
	store := newTable(rows...)
	if sum := once(t, t.Context(), store, options(16, ok)); sum.Claimed != 0 || sum.StoppedBy != Drained {
		t.Errorf("summary %+v", sum)
	}
	if store.claims > 2 {
		t.Errorf("%d claims of nothing", store.claims)
	}
}

// More destinations than places, all of them leased elsewhere but the last.
func TestLeasedLanesDoNotHideALaterOne(t *testing.T) {
	var rows []*row
	for i := range int64(20) {
		r := due(i+1, 1)[0]
		r.foreign = i < 19
		rows = append(rows, r)
	}
	if sum := once(t, t.Context(), newTable(rows...), options(2, ok)); sum.Delivered != 1 {
		t.Errorf("delivered %d, want the one that is free", sum.Delivered)
	}
}

func TestNeverMoreThanThePlaces(t *testing.T) {
	var busy, most atomic.Int64
	store := newTable(slices.Concat(due(1, 100), due(2, 100), due(3, 100))...)
	once(t, t.Context(), store, options(5, func(ctx context.Context, c work.Claimed) work.Outcome {
		n := busy.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer busy.Add(-1)
		return ok(ctx, c)
	}))
	if most.Load() > 5 {
		t.Errorf("%d requests in flight, want at most 5", most.Load())
	}
}

// Where there are many places, the next are claimed while results are written: as many as
// there are places at most, and never with more requests in flight than places.
func TestClaimsWhileResultsAreWritten(t *testing.T) {
	for places, leases := range map[int][2]int{63: {63, 63}, 64: {128, 128}, 100: {200, 200}} {
		synctest.Test(t, func(t *testing.T) {
			store, writes := newTable(due(1, 400)...), make(chan struct{})
			store.writes = writes
			var open, most atomic.Int64
			o := with(options(places, func(ctx context.Context, c work.Claimed) work.Outcome {
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1)
				<-time.After(time.Millisecond)
				return ok(ctx, c)
			}), func(p *policy.Policy) { p.MaxInFlight = 400 })
			ended := make(chan Summary)
			go func() { ended <- once(t, t.Context(), store, o) }()
			<-time.After(time.Minute)
			store.mu.Lock()
			leased := 0
			for _, r := range store.rows {
				if r.lease {
					leased++
				}
			}
			store.mu.Unlock()
			if leased < leases[0] || leased > leases[1] || most.Load() > int64(places) {
				t.Errorf("%d places: %d leased, want %v, and %d requests in flight", places, leased, leases, most.Load())
			}
			close(writes)
			if sum := <-ended; sum.Delivered != 400 || most.Load() > int64(places) {
				t.Errorf("%d places: %d delivered, with %d requests in flight", places, sum.Delivered, most.Load())
			}
		})
	}
}

func TestCapOfADestination(t *testing.T) {
	var busy, most atomic.Int64
	o := options(50, nil)
	base, _ := options(50, func(ctx context.Context, c work.Claimed) work.Outcome {
		n := busy.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer busy.Add(-1)
		return ok(ctx, c)
	}).Endpoint(work.Destination{})
	base.Policy.MaxInFlight = 3
	o.Endpoint = func(work.Destination) (Endpoint, error) { return base, nil }
	once(t, t.Context(), newTable(due(1, 200)...), o)
	if most.Load() > 3 {
		t.Errorf("%d requests in flight at one destination, want at most 3", most.Load())
	}
}

func TestLimitCountsAttemptsNotTakeovers(t *testing.T) {
	rows := due(1, 20)
	for _, r := range rows[:6] {
		r.lost, r.attempts = true, 1
	}
	sum := once(t, t.Context(), newTable(rows...), func() Options { o := options(4, ok); o.Limit = 5; return o }())
	if sum.Delivered != 5 || sum.StoppedBy != Limit || sum.LostRecovered != 6 || sum.Retried != 6 || left(sum) != 15 {
		t.Errorf("summary %+v, want 5 delivered, 6 taken over, 15 left", sum)
	}
}

func TestLostIsClosedAndAttemptedInOneRun(t *testing.T) {
	rows := due(1, 1)
	rows[0].lost, rows[0].attempts = true, 1
	store := newTable(rows...)
	sum := once(t, t.Context(), store, options(4, ok))
	if sum.Claimed != 2 || sum.LostRecovered != 1 || sum.Delivered != 1 || sum.ByClass[work.Lost] != 1 {
		t.Errorf("summary %+v", sum)
	}
	if first := <-store.recorded; first.Worker != "other#1" || first.Outcome.Class != work.Lost {
		t.Errorf("the takeover was recorded as %+v", first)
	}
}

func TestExpiredIsCancelledNotSent(t *testing.T) {
	rows := due(1, 3)
	rows[1].expired = true
	sum := once(t, t.Context(), newTable(rows...), options(4, ok))
	if sum.Cancelled != 1 || sum.Delivered != 2 || rows[1].result.Reason != work.ReasonNotAfter {
		t.Errorf("summary %+v, reason %s", sum, rows[1].result.Reason)
	}
}

func TestGuardDecidesRightBeforeSending(t *testing.T) {
	rows := due(1, 2)
	o := options(4, func(_ context.Context, c work.Claimed) work.Outcome {
		if c.ID == 0 {
			t.Error("an unwanted delivery was sent")
		}
		return ok(t.Context(), c)
	})
	o.Guard = func(c work.Claimed) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { return c.ID != 0, nil }
	}
	if sum := once(t, t.Context(), newTable(rows...), o); sum.Cancelled != 1 || sum.Delivered != 1 || rows[0].result.Reason != work.ReasonGuard {
		t.Errorf("summary %+v", sum)
	}
}

// A guard that cannot be asked holds its destination back, without an endless loop.
func TestBrokenGuardGivesBack(t *testing.T) {
	o := options(4, ok)
	o.Guard = func(work.Claimed) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { return false, fmt.Errorf("%w: reservations", work.ErrGrant) }
	}
	if sum := once(t, t.Context(), newTable(due(1, 9)...), o); sum.Released == 0 || left(sum) != 9 || !errors.Is(sum.Held, work.ErrGrant) {
		t.Errorf("summary %+v", sum)
	}
}

// Deliveries without a guard do not wait for those that have one.
func TestASlowGuardHoldsUpItsOwn(t *testing.T) {
	passed := make(chan struct{})
	o := options(4, func(_ context.Context, c work.Claimed) work.Outcome {
		if c.DestinationID == 2 {
			close(passed)
		}
		return ok(t.Context(), c)
	})
	o.Guard = func(c work.Claimed) func(context.Context) (bool, error) {
		if c.DestinationID == 2 {
			return nil
		}
		return func(ctx context.Context) (bool, error) {
			select {
			case <-passed:
			case <-ctx.Done():
			}
			return true, ctx.Err()
		}
	}
	if sum := once(t, t.Context(), newTable(slices.Concat(due(1, 2), due(2, 1))...), o); sum.Delivered != 3 {
		t.Errorf("summary %+v", sum)
	}
}

func TestTooLittleLeaseGivesBack(t *testing.T) {
	o := options(4, func(context.Context, work.Claimed) work.Outcome {
		t.Error("sent with too little of its lease left")
		return work.Outcome{}
	})
	e, _ := o.Endpoint(work.Destination{})
	e.Policy.Lease = e.Policy.Timeout + e.Policy.WriteMargin // valid is more than that
	o.Endpoint = func(work.Destination) (Endpoint, error) { return e, nil }
	if sum := once(t, t.Context(), newTable(due(1, 3)...), o); sum.Released == 0 || left(sum) != 3 || sum.Held != nil {
		t.Errorf("summary %+v", sum)
	}
}

func TestAnUnusableDestinationHoldsOnlyItsOwn(t *testing.T) {
	o := options(4, ok)
	usable := o.Endpoint
	o.Endpoint = func(d work.Destination) (Endpoint, error) {
		if d.ID == 1 {
			return Endpoint{}, errors.New("policy is not configured")
		}
		return usable(d)
	}
	sum := once(t, t.Context(), newTable(slices.Concat(due(1, 5), due(2, 5))...), o)
	if sum.Delivered != 5 || left(sum) != 5 || sum.Held == nil || sum.HeldBack[work.HoldNotReady] != 5 {
		t.Errorf("summary %+v", sum)
	}
}

// After a signal nothing is sent any more, what is in flight is recorded, and a claim
// that was under way is given back.
func TestSignalGivesBackWhatWasNotSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := newTable(due(1, 40)...)
	var sent atomic.Int64
	started, release := make(chan struct{}, 40), make(chan struct{})
	o := options(4, func(context.Context, work.Claimed) work.Outcome {
		sent.Add(1)
		started <- struct{}{}
		<-release
		return work.Outcome{Class: work.OK, Status: 200}
	})
	var wg sync.WaitGroup
	var sum Summary
	wg.Go(func() { sum = once(t, ctx, store, o) })
	for range 4 {
		<-started
	}
	cancel()
	close(release)
	wg.Wait()
	if sent.Load() != 4 || sum.Delivered != 4 || sum.StoppedBy != Signal || left(sum) != 36 {
		t.Errorf("sent %d, summary %+v", sent.Load(), sum)
	}
}

func TestSignalDuringAClaimSendsNothingOfIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := newTable(due(1, 4)...)
	store.fail = func(call string) error {
		if call == "claim" {
			cancel() // it is stored all the same
		}
		return nil
	}
	sum := once(t, ctx, store, options(4, func(context.Context, work.Claimed) work.Outcome {
		t.Error("sent after the signal")
		return work.Outcome{}
	}))
	if sum.Released != 4 || sum.StoppedBy != Signal {
		t.Errorf("summary %+v", sum)
	}
}

func TestGraceBreaksOffAsLost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rows := due(1, 1)
	o := options(4, func(ctx context.Context, _ work.Claimed) work.Outcome {
		cancel()
		<-ctx.Done()
		return work.Outcome{Class: work.Lost}
	})
	o.Grace = time.Millisecond
	sum := once(t, ctx, newTable(rows...), o)
	if sum.ByClass[work.Lost] != 1 || sum.Retried != 1 || rows[0].result.Outcome.Class != work.Lost {
		t.Errorf("summary %+v: what a stop broke off is lost, its effect unknown", sum)
	}
}

// What a stop reached before anything was sent is given back, uncharged.
func TestGraceGivesBackWhatWasNotSentYet(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := options(4, func(ctx context.Context, _ work.Claimed) work.Outcome {
		cancel()
		<-ctx.Done()
		return work.Outcome{Class: work.Lost, Unsent: true}
	})
	o.Grace = time.Millisecond
	if sum := once(t, ctx, newTable(due(1, 1)...), o); sum.Released != 1 || left(sum) != 1 {
		t.Errorf("summary %+v", sum)
	}
}

func TestOneBadResultDoesNotTakeTheOthersWithIt(t *testing.T) {
	rows := due(1, 20)
	store := &pickyTable{table: newTable(rows...), bad: 7}
	sum, err := Once(t.Context(), store, options(20, ok))
	if err != nil {
		t.Fatal(err)
	}
	if sum.Delivered != 19 || sum.Unrecorded != 1 {
		t.Errorf("summary %+v", sum)
	}
}

// pickyTable refuses every group that holds one row.
type pickyTable struct {
	*table
	bad int64
}

func (p *pickyTable) Record(ctx context.Context, owner string, results []work.Result) ([]work.Fate, error) {
	if slices.ContainsFunc(results, func(r work.Result) bool { return r.ID == p.bad }) {
		p.mu.Lock()
		p.rows[p.bad].foreign = true // its lease stays until it runs out
		p.mu.Unlock()
		return nil, errors.New("invalid byte sequence")
	}
	return p.table.Record(ctx, owner, results)
}

func TestLostDatabaseEndsTheRun(t *testing.T) {
	for _, broken := range []string{"scan", "beat", "shares", "claim", "record"} {
		t.Run(broken, func(t *testing.T) {
			store := newTable(due(1, 40)...)
			store.fail = func(call string) error {
				if call == broken {
					return work.ErrUnreachable
				}
				return nil
			}
			_, err := Once(t.Context(), store, options(4, ok))
			if !errors.Is(err, work.ErrUnreachable) {
				t.Errorf("error %v, want work.ErrUnreachable", err)
			}
			if n := store.claims; broken == "record" && n > 40 {
				t.Errorf("%d claims after the database was lost", n)
			}
		})
	}
}

func TestLargePayloadsAreReadWithinABudget(t *testing.T) {
	rows := due(1, 6)
	for _, r := range rows {
		r.bytes = PayloadMemory // one at a time
	}
	var held, most atomic.Int64
	sum := once(t, t.Context(), newTable(rows...), options(6, func(ctx context.Context, c work.Claimed) work.Outcome {
		n := held.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer held.Add(-1)
		return ok(ctx, c)
	}))
	if sum.Delivered != 6 || most.Load() != 1 {
		t.Errorf("delivered %d, %d large payloads held at once, want 1", sum.Delivered, most.Load())
	}
}

func TestRetryAndDeathAreCounted(t *testing.T) {
	rows := due(1, 3)
	rows[0].attempts = 7 // the next is the eighth
	sum := once(t, t.Context(), newTable(rows...), options(4, down))
	if sum.Retried != 2 || sum.Dead != 1 || rows[0].result.Reason != work.ReasonExhausted || rows[0].result.Fingerprint == "" {
		t.Errorf("summary %+v, result %+v", sum, rows[0].result)
	}
}

// A run that did its work does not fail over the count of what is left.
func TestACountThatFailsIsNoFailure(t *testing.T) {
	store := newTable(due(1, 3)...)
	store.fail = func(call string) error {
		if call == "backlog" {
			return work.ErrUnreachable
		}
		return nil
	}
	if sum := once(t, t.Context(), store, options(4, ok)); sum.Delivered != 3 || sum.DueRemaining != nil || sum.StoppedBy != Drained {
		t.Errorf("summary %+v", sum)
	}
}

// Deliveries whose last attempt was lost go one at a time at each destination, beside
// all others: one of them may be what killed their worker.
func TestSuspectsGoOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := slices.Concat(due(1, 20), due(2, 20))
		for i, r := range rows {
			r.suspect = i%2 == 0
		}
		var mu sync.Mutex
		busy, most := map[int64]int{}, map[int64]int{}
		sum := once(t, t.Context(), newTable(rows...), options(16, func(ctx context.Context, c work.Claimed) work.Outcome {
			if c.Suspect {
				mu.Lock()
				busy[c.DestinationID]++
				most[c.DestinationID] = max(most[c.DestinationID], busy[c.DestinationID])
				mu.Unlock()
				defer func() {
					mu.Lock()
					busy[c.DestinationID]--
					mu.Unlock()
				}()
			}
			time.Sleep(50 * time.Millisecond) // of the bubble: there is time to claim more
			return ok(ctx, c)
		}))
		if sum.Delivered != 40 || most[1] != 1 || most[2] != 1 {
			t.Errorf("delivered %d, suspects at once %v", sum.Delivered, most)
		}
	})
}

// What the run closed as lost is a suspect in the same run.
func TestTakenOverIsASuspectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := due(1, 6)
		for _, r := range rows {
			r.lost, r.attempts = true, 1
		}
		var busy, most atomic.Int64
		sum := once(t, t.Context(), newTable(rows...), options(16, func(ctx context.Context, c work.Claimed) work.Outcome {
			n := busy.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			defer busy.Add(-1)
			time.Sleep(50 * time.Millisecond) // of the bubble: there is time to claim more
			return ok(ctx, c)
		}))
		if sum.Delivered != 6 || sum.LostRecovered != 6 || most.Load() != 1 {
			t.Errorf("summary %+v, %d suspects at once", sum, most.Load())
		}
	})
}

// One request that hangs must not keep the run from what becomes due elsewhere.
func TestAHangingRequestDoesNotIdleTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := slices.Concat(due(1, 1), due(2, 1))
		rows[1].due = false
		store := newTable(rows...)
		sent2 := make(chan struct{})
		o := options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
			if c.DestinationID == 2 {
				close(sent2)
				return ok(ctx, c)
			}
			store.mu.Lock()
			rows[1].due = true // while this one hangs
			store.mu.Unlock()
			<-sent2
			return ok(ctx, c)
		})
		begun := time.Now() // the bubble's clock
		if sum := once(t, t.Context(), store, o); sum.Delivered != 2 || time.Since(begun) > 2*rescanAfter {
			t.Errorf("summary %+v after %s", sum, time.Since(begun))
		}
	})
}

// The lease is counted from before the claim was sent: a slow claim leaves less of it.
func TestALeaseIsCountedFromBeforeItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(4, func(context.Context, work.Claimed) work.Outcome {
			t.Error("sent with too little of its lease left")
			return work.Outcome{}
		})
		e, _ := o.Endpoint(work.Destination{})
		e.Policy.Lease = e.Policy.Timeout + e.Policy.WriteMargin + 20*time.Millisecond
		o.Endpoint = func(work.Destination) (Endpoint, error) { return e, nil }
		store := newTable(due(1, 3)...)
		store.slow = 25 * time.Millisecond
		if sum := once(t, t.Context(), store, o); sum.Released == 0 || left(sum) != 3 {
			t.Errorf("summary %+v", sum)
		}
	})
}

// Looking who has work costs a look at every destination, and at all that ended there; the
// marks are trusted as long as there is work by them.
func TestNoLookWhileThereIsWork(t *testing.T) {
	var rows []*row
	for i := range int64(100) {
		rows = append(rows, due(i+1, 50)...)
	}
	store := newTable(rows...)
	o := options(256, ok)
	o.Limit = 4000
	once(t, t.Context(), store, o)
	if store.surveys != 1 {
		t.Errorf("looked %d times who has work, want once", store.surveys)
	}
}

// Where a destination has all that it may have in flight, looking finds nothing new at it.
// Others may have come to have work, so it is looked, but for a small part of the time.
func TestLooksLittleWhileLanesAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 500)...)
		store.look = 10 * time.Millisecond
		begun := time.Now()
		once(t, t.Context(), store, options(256, func(ctx context.Context, c work.Claimed) work.Outcome {
			time.Sleep(100*time.Millisecond + time.Duration(c.ID%100)*time.Millisecond)
			return ok(ctx, c)
		}))
		if spent, in := time.Duration(store.surveys)*store.look, time.Since(begun); spent > in/rescanShare {
			t.Errorf("%s of %s were spent on looking who has work", spent, in)
		}
	})
}
