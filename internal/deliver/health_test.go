package deliver

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// answers makes a receiver that answers with a status.
func answers(status int, after time.Duration) answering {
	return func(context.Context, work.Claimed) work.Outcome {
		return work.Outcome{Class: work.ClassOfStatus(status), Status: status, RetryAfter: after}
	}
}

// with changes the policy of all destinations.
func with(o Options, change func(p *policy.Policy)) Options {
	inner := o.Endpoint
	o.Endpoint = func(d work.Destination) (Endpoint, error) {
		to, err := inner(d)
		change(&to.Policy)
		return to, err
	}
	return o
}

func TestCircuitHoldsBack(t *testing.T) {
	rows := due(1, 200)
	o := with(options(16, down), func(p *policy.Policy) { p.Circuit.Failures, p.MaxInFlight = 20, 8 })
	sum := once(t, t.Context(), newTable(rows...), o)
	if sum.Retried < 20 || sum.Retried > 19+8 || sum.StoppedBy != Drained {
		t.Errorf("%d attempts, want the 20 and what was in flight: %+v", sum.Retried, sum)
	}
	if held := sum.HeldBack[work.HoldCircuit]; held != int64(200-sum.Retried) {
		t.Errorf("%d held back by the circuit, want the rest", held)
	}
}

func TestAnOpenCircuitDoesNotHoldBackOthers(t *testing.T) {
	rows := append(due(1, 200), due(2, 200)...)
	o := options(16, func(ctx context.Context, c work.Claimed) work.Outcome {
		if c.DestinationID == 1 {
			return down(ctx, c)
		}
		return ok(ctx, c)
	})
	if sum := once(t, t.Context(), newTable(rows...), o); sum.Delivered != 200 {
		t.Errorf("delivered %d of the other destination's 200", sum.Delivered)
	}
}

func TestHalfOpenSendsOneProbe(t *testing.T) {
	half := work.Health{Openings: 2, Failures: 30, OpenUntil: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	store := newTable(due(1, 50)...)
	store.health[1] = half
	sum := once(t, t.Context(), store, options(16, down))
	if sum.Retried != 1 || sum.HeldBack[work.HoldCircuit] != 49 {
		t.Errorf("a probe that failed: %+v", sum)
	}
	if h := store.health[1]; h.Openings != 3 || !h.ProbeUntil.IsZero() {
		t.Errorf("health after it: %+v", h)
	}
	store = newTable(due(1, 50)...)
	store.health[1] = half
	if sum := once(t, t.Context(), store, options(16, ok)); sum.Delivered != 50 || !store.health[1].Clean() {
		t.Errorf("a probe that succeeded: %+v, health %+v", sum, store.health[1])
	}
}

// A probe that is given back, or taken over from a lost worker, does not keep the next
// one from going.
func TestAProbeThatTellsNothingIsNoEnd(t *testing.T) {
	rows := due(1, 3)
	rows[0].lost, rows[0].attempts = true, 1
	store := newTable(rows...)
	store.health[1] = work.Health{Openings: 1, OpenUntil: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	if sum := once(t, t.Context(), store, options(16, ok)); sum.Delivered != 3 || sum.LostRecovered != 1 {
		t.Errorf("summary %+v", sum)
	}
}

// What is only closed or cancelled is no probe, and does not end the one under way.
func TestWhatIsNotSentEndsNoProbe(t *testing.T) {
	for what, unsent := range map[string]row{"lost": {lost: true, attempts: 1}, "expired": {expired: true}} {
		synctest.Test(t, func(t *testing.T) {
			rows := due(1, 4)
			rows[0].lost, rows[0].expired, rows[0].attempts = unsent.lost, unsent.expired, unsent.attempts
			store := newTable(rows...)
			store.health[1] = work.Health{Openings: 1, OpenUntil: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
			var open, most atomic.Int32
			once(t, t.Context(), store, options(16, func(context.Context, work.Claimed) work.Outcome {
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1)
				<-time.After(time.Second)
				return work.Outcome{Class: work.Timeout}
			}))
			if most.Load() != 1 {
				t.Errorf("%s: %d probes at once", what, most.Load())
			}
		})
	}
}

func TestRefusedCredentialsPause(t *testing.T) {
	store := newTable(due(1, 1000)...)
	o := with(options(64, answers(401, 0)), func(p *policy.Policy) { p.MaxInFlight = 16 })
	sum := once(t, t.Context(), store, o)
	if sum.Dead < 5 || sum.Dead > 4+16 || sum.HeldBack[work.HoldPaused] != int64(1000-sum.Dead) {
		t.Errorf("%d dead, want the five and what was in flight: %+v", sum.Dead, sum)
	}
	for i, r := range store.rows {
		if r.due && r.attempts != 0 {
			t.Fatalf("row %d is held back with %d attempts burnt", i, r.attempts)
		}
	}
	if p := store.health[1].Pause; p.By != policy.PausedBy {
		t.Errorf("pause %+v", p)
	}
}

func TestRetryAfterHoldsBack(t *testing.T) {
	store := newTable(due(1, 100)...)
	o := with(options(64, answers(429, time.Minute)), func(p *policy.Policy) { p.MaxInFlight = 4 })
	sum := once(t, t.Context(), store, o)
	if sum.Retried > 4 || sum.HeldBack[work.HoldRetryAfter] != int64(100-sum.Retried) {
		t.Errorf("summary %+v, want no more than what was in flight", sum)
	}
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Time
		o := with(options(64, func(ctx context.Context, c work.Claimed) work.Outcome {
			begun = append(begun, time.Now()) // one at a time, at this rate
			return ok(ctx, c)
		}), func(p *policy.Policy) { p.Rate = policy.Rate{N: 20, Per: time.Second} })
		start := time.Now()
		sum := once(t, t.Context(), newTable(due(1, 100)...), o)
		if took := time.Since(start); sum.Delivered != 100 || took < 4900*time.Millisecond || took > 6*time.Second {
			t.Errorf("delivered %d in %s, want 100 in about 5 s", sum.Delivered, took)
		}
		for i := 21; i < len(begun); i++ {
			if begun[i].Sub(begun[i-21]) < time.Second {
				t.Fatalf("22 requests within %s", begun[i].Sub(begun[i-21]))
			}
		}
	})
}

// A slot that is minutes away is not waited for.
func TestASlowRateEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := with(options(64, ok), func(p *policy.Policy) { p.Rate = policy.Rate{N: 10, Per: time.Hour} })
		start := time.Now()
		sum := once(t, t.Context(), newTable(due(1, 5)...), o)
		if sum.Delivered != 1 || sum.HeldBack[work.HoldRate] != 4 || time.Since(start) > time.Second {
			t.Errorf("after %s: %+v", time.Since(start), sum)
		}
	})
}

// Where another worker holds on to a ticket, a run asks again, but neither without pause
// nor for ever.
func TestATicketThatIsNeverFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 20)...)
		store.locked = true
		o := with(options(64, ok), func(p *policy.Policy) { p.Rate = policy.Rate{N: 20, Per: time.Second} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		sum := once(t, ctx, store, o)
		if took := time.Since(start); sum.StoppedBy != Drained || took < time.Second || took > 2*shareWait || store.claims > 150 {
			t.Errorf("after %s and %d claims: %+v", took, store.claims, sum)
		}
		if sum.HeldBack[work.HoldRate] != 20 {
			t.Errorf("held back: %v, want all 20 by the rate that the other uses up", sum.HeldBack)
		}
	})
}

// Where others use up a destination's cap, a run waits until they give some away.
func TestWaitsForAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(append(due(1, 20), due(2, 20)...)...)
		store.others, store.rooms = 1, map[int64]int{1: 0}
		go func() {
			<-time.After(2500 * time.Millisecond)
			store.mu.Lock()
			defer store.mu.Unlock()
			store.rooms[1] = 2
		}()
		start := time.Now()
		sum := once(t, t.Context(), store, options(16, ok))
		if sum.Delivered != 40 || time.Since(start) > 4*time.Second {
			t.Errorf("after %s: %+v", time.Since(start), sum)
		}
	})
}

func TestAShareThatNeverComesEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable(due(1, 20)...)
		store.others, store.rooms = 1, map[int64]int{1: 0}
		start := time.Now()
		sum := once(t, t.Context(), store, options(16, ok))
		if sum.Claimed != 0 || sum.HeldBack[work.HoldInFlight] != 20 || sum.StoppedBy != Drained {
			t.Errorf("summary %+v", sum)
		}
		if took := time.Since(start); took < shareWait || took > shareWait+2*beatAfter {
			t.Errorf("it waited %s", took)
		}
	})
}

// A run that was taken for dead makes itself known again and goes on.
func TestForgottenWorkerComesBack(t *testing.T) {
	store := newTable(due(1, 100)...)
	o := options(4, func(ctx context.Context, c work.Claimed) work.Outcome {
		if c.ID == 50 {
			store.mu.Lock()
			store.known = false
			store.mu.Unlock()
		}
		return ok(ctx, c)
	})
	if sum := once(t, t.Context(), store, o); sum.Delivered != 100 {
		t.Errorf("summary %+v", sum)
	}
	if store.left != 1 {
		t.Errorf("it left %d times, want once", store.left)
	}
}

func TestARunWithNothingToDoIsNotAnnounced(t *testing.T) {
	store := newTable()
	once(t, t.Context(), store, options(4, ok))
	if store.known || store.left != 0 {
		t.Error("it made itself known, for nothing")
	}
}

func TestLimitsOfTheDestinationComeFirst(t *testing.T) {
	r := &run{o: options(4, ok)}
	la := &lane{}
	r.refresh(la, work.Destination{ID: 1, MaxInFlight: 3, Rate: "7/m"})
	if p := la.to.Policy; p.MaxInFlight != 3 || p.Rate != (policy.Rate{N: 7, Per: time.Minute}) {
		t.Errorf("policy %+v", p)
	}
	r.refresh(la, work.Destination{ID: 1, Rate: "fast", UpdatedAt: time.Unix(1, 0)})
	if la.held == nil {
		t.Error("a rate that cannot be read holds nothing back")
	}
}

// What came to be open between the look at the lanes and the question how long to wait is
// no reason to end.
func TestALaneThatHasJustOpenedIsWaitedFor(t *testing.T) {
	r := &run{o: options(4, ok)}
	r.clock.set(time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC))
	to := Endpoint{Policy: policy.Default()}
	to.Policy.Rate = policy.Rate{N: 1, Per: time.Second}
	r.lanes.order = []*lane{{to: &to, room: 1, health: work.Health{NextSlot: r.clock.asOf}}}
	if wait, worthwhile := r.next(); wait > time.Millisecond || !worthwhile {
		t.Errorf("wait %s, worthwhile %t", wait, worthwhile)
	}
}

// logged has o write its log of a level and above, and answers with what says what holds
// destinations back: level, message, hold and, if it is told, why.
func logged(o *Options, level slog.Level) (lines func() string) {
	var log strings.Builder // the handler writes one line at a time
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
	line := regexp.MustCompile(`level=(\w+) msg="destination (.*?)" destination=d\d hold=(\w+)(?: until=\S+)?( why=(?:".*"|\S+))?`)
	return func() string {
		var all []string
		for _, m := range line.FindAllStringSubmatch(log.String(), -1) {
			all = append(all, strings.Join(m[1:4], " ")+m[4])
		}
		return strings.Join(all, "\n")
	}
}

// Whoever reads the log sees a circuit open, stay open, and close: each once.
func TestTheWayOfACircuitIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		o := with(options(16, func(ctx context.Context, c work.Claimed) work.Outcome {
			if up.Load() {
				return ok(ctx, c)
			}
			return down(ctx, c)
		}), func(p *policy.Policy) {
			p.Circuit, p.MaxInFlight = policy.Circuit{Failures: 4, OpenFor: time.Minute, OpenMax: time.Hour}, 1
		})
		lines := logged(&o, slog.LevelInfo)
		stop := serving(t, newTable(due(1, 50)...), o)
		<-time.After(4 * time.Minute) // probes after one and after three
		up.Store(true)
		<-time.After(time.Hour)
		if sum := stop(); sum.Delivered == 0 {
			t.Errorf("summary %+v", sum)
		}
		want := `WARN held back circuit_open why="4 failures in a row"
INFO still held back circuit_open why="5 failures in a row"
INFO still held back circuit_open why="6 failures in a row"
INFO no longer held back circuit_open`
		if got := lines(); got != want {
			t.Errorf("logged:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A worker tells of what a person does, and of what others find out, whether it has met the
// destination before or not.
func TestWhatOthersDoIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTable()
		store.look = 100 * time.Millisecond // too dear for one after each claim
		o := options(4, ok)
		lines := logged(&o, slog.LevelInfo)
		held := func(h work.Health, after time.Duration, rows ...*row) {
			store.mu.Lock()
			store.health[1] = h
			store.mu.Unlock()
			store.add(rows...) // which it must not meet before
			<-time.After(after)
		}
		store.health[2] = work.Health{Pause: work.Pause{At: store.asOf(), By: "ben", Reason: "from before"}}
		store.add(due(2, 1)...)
		<-time.After(time.Second)
		stop := serving(t, store, o)
		<-time.After(time.Minute)
		held(work.Health{Pause: work.Pause{At: store.asOf(), By: "ann", Reason: "moving"}}, time.Minute, due(1, 1)...)
		held(work.Health{HeldUntil: store.asOf().Add(time.Minute)}, 30*time.Second)
		held(work.Health{HeldUntil: store.asOf().Add(time.Minute + pollEvery/2)}, 2*time.Minute) // ends between two looks
		held(work.Health{Pause: work.Pause{At: store.asOf(), By: policy.PausedBy, Reason: "auto-paused: credentials"}}, time.Minute, due(1, 1)...)
		stop()
		want := `INFO held back paused why="paused by ann: moving"
INFO no longer held back paused
INFO held back retry_after why="the receiver asked for a pause"
INFO no longer held back retry_after
WARN held back paused why="paused by whctl: auto-paused: credentials"`
		if got := lines(); got != want {
			t.Errorf("logged:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A run that is to be quiet logs warnings, and cron mails them: what the receiver asked for,
// or a circuit that is open still, is none at each tick.
func TestWhatIsExpectedIsNoWarning(t *testing.T) {
	open := work.Health{Openings: 2, Failures: 30, OpenUntil: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	for what, x := range map[string]struct {
		known  work.Health
		answer answering
	}{
		"a pause that was asked for": {answer: answers(429, time.Minute)},
		"a probe that failed":        {open, down},
		"a probe that succeeded":     {open, ok},
	} {
		o := options(4, x.answer)
		lines := logged(&o, slog.LevelDebug)
		store := newTable(due(1, 10)...)
		store.health[1] = x.known
		once(t, t.Context(), store, o)
		if got := lines(); got == "" || strings.Contains(got, "WARN") {
			t.Errorf("%s: logged %q", what, got)
		}
	}
}

// What the cap holds is told, also where a run ends before all is done, and only where it
// is the cap that holds it.
func TestTheCapIsToldAsAHold(t *testing.T) {
	for what, x := range map[string]struct {
		places, limit, max int
		held               bool
	}{
		"the cap and the time":  {places: 16, max: 2, held: true},
		"the cap and the limit": {places: 16, limit: 7, max: 1, held: true},
		"the limit":             {places: 16, limit: 3, max: 8},
		"the places":            {places: 4, max: 8},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := with(options(x.places, func(ctx context.Context, c work.Claimed) work.Outcome {
				<-time.After(700 * time.Millisecond)
				return ok(ctx, c)
			}), func(p *policy.Policy) { p.MaxInFlight = x.max })
			told := &holds{}
			o.MaxTime, o.Limit, o.Observe = 10*time.Second, x.limit, told
			sum := once(t, t.Context(), newTable(due(1, 500)...), o)
			want, destinations := int64(0), 0
			if x.held {
				want, destinations = left(sum), 1
			}
			if sum.HeldBack[work.HoldInFlight] != want || told.of(work.HoldInFlight) != destinations {
				t.Errorf("%s: held back %v of %d, told %d; want %d", what, sum.HeldBack, left(sum), told.of(work.HoldInFlight), want)
			}
		})
	}
}

// So it is while a worker works, whose lanes have a place free whenever it looks.
func TestAWorkerTellsWhatItsCapsHold(t *testing.T) {
	for cap, want := range map[int]int{1: 1, 40: 0} {
		synctest.Test(t, func(t *testing.T) {
			o := with(options(16, func(ctx context.Context, c work.Claimed) work.Outcome {
				<-time.After(700 * time.Millisecond)
				return ok(ctx, c)
			}), func(p *policy.Policy) { p.MaxInFlight = cap })
			told := &holds{}
			o.Observe = told
			stop := serving(t, newTable(due(1, 5000)...), o)
			for range 60 {
				<-time.After(time.Second)
				if n := told.of(work.HoldInFlight); n != want && told.counted() > 1 {
					t.Fatalf("cap %d: told %d, want %d", cap, n, want)
				}
			}
			stop()
		})
	}
}

// A lane that has just come to have a place is held by its cap all the same, if more is due
// than that place is for; where all places are taken, it is those that hold it.
func TestWhatIsDueBeyondTheCap(t *testing.T) {
	for what, x := range map[string]struct {
		busy, others int // of 4, and of 16 places
		waiting      int64
		why          StoppedBy
		held         bool
	}{
		"full":                            {busy: 4, waiting: 1, held: true},
		"full at the end":                 {busy: 4, waiting: 1, why: Drained, held: true},
		"more than fits":                  {busy: 3, waiting: 2, held: true},
		"more than fitted when time ran":  {busy: 3, waiting: 2, why: MaxTime, held: true},
		"what came when all was taken":    {busy: 3, waiting: 2, why: Drained},
		"all of it fits":                  {busy: 3, waiting: 1},
		"nothing":                         {busy: 4},
		"no place for it":                 {busy: 3, others: 13, waiting: 2},
		"no more places than may be used": {busy: 3, others: 12, waiting: 2},
	} {
		to := Endpoint{Policy: policy.Default()}
		to.Policy.MaxInFlight = 4
		la := &lane{to: &to, room: 4, asked: true, busy: x.busy, waiting: x.waiting}
		r := &run{o: options(16, ok), recorder: &recorder{}, shares: shares{entered: true}, busy: x.busy + x.others}
		r.lanes.byID = map[int64]*lane{1: la}
		r.measure()
		if got := r.heldBack(la, x.why) == work.HoldInFlight; got != x.held {
			t.Errorf("%s: held %t", what, got)
		}
	}
}
