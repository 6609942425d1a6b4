package deliver

import (
	"context"
	"errors"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// claimWait is how long a claim waits for more places to come free.
	claimWait = 20 * time.Millisecond
	// maxClaim bounds one claim, whatever the number of places.
	maxClaim = 500
	// manyPlaces is how many make it worth while to claim ahead of what is being written.
	manyPlaces = 64
)

// run is the state of one run. Only its own goroutine touches it; senders and the
// recorder speak to it through channels.
type run struct {
	store    Store
	o        Options
	serve    bool // until it is told to stop, whatever is due
	lanes    lanes
	shares   shares
	clock    clock // the database's
	senders  *senders
	recorder *recorder
	tally    tally
	busy     int // places held: claimed and not recorded
	begun    time.Time
	claimed  time.Time // when something was claimed last
	nextDue  time.Time // when something becomes due, by the last scan and the database's clock
	tries    int       // in vain, to have something of the database, since it last answered
	// What is due is counted for the observer of a worker.
	counted   time.Time
	countCost time.Duration
}

// Once claims and attempts what is due until nothing is, or until a bound of o is met,
// or ctx ends (which it takes for a stop by signal). What was in flight is recorded and
// what was not sent is given back before it returns. The summary is as true as it can
// be also with an error.
func Once(ctx context.Context, store Store, o Options) (Summary, error) {
	return carryOut(ctx, &run{store: store, o: o})
}

// Serve is Once for a worker that stays: it goes on when nothing is due, and while the
// database is out of reach, until ctx ends.
func Serve(ctx context.Context, store Store, o Options) (Summary, error) {
	return carryOut(ctx, &run{store: store, o: o, serve: true})
}

func carryOut(ctx context.Context, r *run) (Summary, error) {
	r.lanes.byID = make(map[int64]*lane)
	if err := r.scan(ctx); err != nil {
		return Summary{}, err
	}
	// What was started is finished and recorded, whatever becomes of ctx.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	began := r.clock.asOf
	r.begun, r.claimed = time.Now(), time.Now()
	r.tally = newTally(r.o.Owner, began)
	r.recorder = startRecorder(inner, r.store, r.o, r.serve)
	r.senders = newSenders(inner, ctx, r.store, r.o, r.recorder.put)

	why, err := r.loop(ctx)
	r.measure()
	if ended := r.windUp(ctx, why); err == nil {
		err = ended
	}
	r.leave(inner)
	sum := r.tally.summary(why, began.Add(time.Since(r.begun)))
	sum.Held = r.lanes.held()
	if err == nil {
		r.countBacklog(inner, &sum)
	}
	return sum, err
}

// loop takes turns until there is a reason to stop.
func (r *run) loop(ctx context.Context) (StoppedBy, error) {
	for {
		r.o.observed().Turned()
		why, err := r.turn(ctx)
		switch {
		case r.sitsOut(err):
			r.pause(ctx)
		case err != nil:
			return Failed, err
		case why != "":
			return why, nil
		}
	}
}

// turn settles, and claims as much as there are places for, or waits. It answers with
// the reason to stop, if there is one.
func (r *run) turn(ctx context.Context) (StoppedBy, error) {
	if err := r.settleReady(); err != nil {
		return "", err
	}
	if why := r.reached(ctx); why != "" {
		return why, nil
	}
	wanted := r.await()
	free := r.free()
	if free < wanted {
		if err := r.wait(ctx, r.patience(free > 0)); err != nil {
			return "", err
		}
		if free = r.free(); free <= 0 {
			return stopped(ctx, r.keepUp(ctx))
		}
	}
	got, err := r.claim(ctx, free)
	if err != nil || got {
		return stopped(ctx, err)
	}
	if r.serve && r.busy == 0 && !r.shares.waiting {
		// What was put in before this is known wakes nobody: it is looked for once more.
		err := r.beat(ctx, true)
		if err == nil {
			err = r.scan(ctx)
		}
		return stopped(ctx, err)
	}
	next, worthwhile := r.next()
	if r.busy == 0 && !r.serve && !worthwhile {
		return Drained, nil
	}
	// Whatever is due is leased, here or elsewhere, or held back. A result may change that.
	if err := r.wait(ctx, min(next, r.patience(false))); err != nil {
		return "", err
	}
	return "", nil
}

// stopped makes a stop of what a signal has broken off, and was not stored. Whether a
// claim was may not be known.
func stopped(ctx context.Context, err error) (StoppedBy, error) {
	if ctx.Err() != nil && !errors.Is(err, work.ErrUnknown) {
		return Signal, nil
	}
	return "", err
}

func (r *run) reached(ctx context.Context) StoppedBy {
	switch {
	case ctx.Err() != nil:
		return Signal
	case r.o.Limit > 0 && r.tally.attempted >= r.o.Limit:
		return Limit
	case r.o.MaxTime > 0 && time.Since(r.begun) >= r.o.MaxTime:
		return MaxTime
	}
	return ""
}

// ahead is how many more deliveries may be held than there are places: those whose results
// wait to be written, or are being written. The next are claimed meanwhile. A run with few
// places does one after the other.
func (o Options) ahead() int {
	if o.Places < manyPlaces {
		return 0
	}
	return o.Places
}

// free is how many deliveries may be claimed now.
func (r *run) free() int {
	free := min(r.o.Places+min(int(r.recorder.ended.Load()), r.o.ahead())-r.busy, maxClaim)
	if r.o.Limit > 0 {
		free = min(free, r.o.Limit-r.tally.attempted)
	}
	return free
}

// wanted is how many places make a claim worth its while: half of all.
func (r *run) wanted() int {
	wanted := max(1, min(r.o.Places/2, maxClaim))
	if r.o.Limit > 0 {
		wanted = min(wanted, r.o.Limit-r.tally.attempted)
	}
	return wanted
}

// await is wanted, and has the run woken when as many places are free.
func (r *run) await() int {
	wanted := r.wanted()
	r.recorder.enough.Store(int64(wanted - r.o.Places + r.busy))
	return wanted
}

// wait blocks until results have been recorded or a worker is woken, for d at most.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case s := <-r.recorder.settled:
		return r.settle(s)
	case <-r.recorder.freed:
	case <-r.o.Wake:
		r.lanes.moved = true
	case <-ctx.Done():
	case <-t.C:
	}
	return nil
}

// patience bounds a wait: a short while if brief, else until it is time to look again
// who has work.
func (r *run) patience(brief bool) time.Duration {
	d := rescanAfter // what is slow must not keep the run from what has become due elsewhere
	if r.serve {
		d = r.lanes.pollAfter()
	}
	if brief {
		d = claimWait
	}
	if r.shares.entered {
		d = min(d, max(time.Millisecond, r.shares.beatIn()))
	}
	if r.o.MaxTime > 0 {
		d = min(d, max(time.Millisecond, r.o.MaxTime-time.Since(r.begun)))
	}
	return d
}
