package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

const (
	// inlineMax is the size up to which a payload comes with its claim; larger ones are
	// read one by one, within payloadBudget.
	inlineMax     = 32 << 10
	payloadBudget = 16 << 20
	// claimWait is how long a claim waits for more places to come free.
	claimWait = 10 * time.Millisecond
	// maxClaim bounds one claim, whatever the number of places.
	maxClaim = 500
)

// run is the state of one bounded run. Only its own goroutine touches it; senders and
// the recorder speak to it through channels.
type run struct {
	store    Store
	o        Options
	lanes    lanes
	senders  *senders
	recorder *recorder
	tally    tally
	busy     int // places held: claimed and not recorded
	begun    time.Time
}

// Once claims and attempts what is due until nothing is, or until a bound of o is met,
// or ctx ends (which it takes for a stop by signal). What was in flight is recorded and
// what was not sent is given back before it returns. The summary is as true as it can
// be also with an error.
func Once(ctx context.Context, store Store, o Options) (Summary, error) {
	began, err := store.Now(ctx)
	if err != nil {
		return Summary{}, err
	}
	// What was started is finished and recorded, whatever becomes of ctx.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &run{store: store, o: o, begun: time.Now(), tally: newTally(o.Owner, began)}
	r.lanes.byID = make(map[int64]*lane)
	r.recorder = startRecorder(inner, store, o)
	r.senders = newSenders(inner, ctx, store, o, r.recorder.results)

	why, err := r.loop(ctx)
	if ended := r.windUp(ctx, why); err == nil {
		err = ended
	}
	sum := r.tally.summary(why, began.Add(time.Since(r.begun)))
	sum.Held = r.lanes.held()
	if err == nil {
		r.countBacklog(inner, &sum)
	}
	return sum, err
}

// loop claims until there is a reason to stop.
func (r *run) loop(ctx context.Context) (StoppedBy, error) {
	for {
		if err := r.settleReady(); err != nil {
			return Failed, err
		}
		if why := r.reached(ctx); why != "" {
			return why, nil
		}
		free := r.free()
		if free < r.wanted() {
			if err := r.wait(ctx, free > 0); err != nil {
				return Failed, err
			}
			if free = r.free(); free == 0 {
				continue
			}
		}
		got, err := r.claim(ctx, free)
		if ctx.Err() != nil && !errors.Is(err, work.ErrUnknown) {
			return Signal, nil // a claim that it broke off was not stored
		}
		if err != nil {
			return Failed, err
		}
		if got {
			continue
		}
		if r.busy == 0 {
			return Drained, nil
		}
		// Whatever is due is leased, here or elsewhere. A result may change that.
		if err := r.wait(ctx, false); err != nil {
			return Failed, err
		}
	}
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

// free is how many deliveries may be claimed now.
func (r *run) free() int {
	free := min(r.o.Places-r.busy, maxClaim)
	if r.o.Limit > 0 {
		free = min(free, r.o.Limit-r.tally.attempted)
	}
	return free
}

// wanted is how many places make a claim worth its while: a quarter of all.
func (r *run) wanted() int {
	wanted := max(1, min(r.o.Places/4, maxClaim))
	if r.o.Limit > 0 {
		wanted = min(wanted, r.o.Limit-r.tally.attempted)
	}
	return wanted
}

// wait blocks until results have been recorded, but not for long: a short while if
// brief, else until it is time to look again who has work.
func (r *run) wait(ctx context.Context, brief bool) error {
	t := time.NewTimer(r.patience(brief))
	defer t.Stop()
	select {
	case s := <-r.recorder.settled:
		return r.settle(s)
	case <-ctx.Done():
	case <-t.C:
	}
	return nil
}

func (r *run) patience(brief bool) time.Duration {
	d := rescanAfter // what is slow must not keep the run from what has become due elsewhere
	if brief {
		d = claimWait
	}
	if r.o.MaxTime > 0 {
		d = min(d, max(time.Millisecond, r.o.MaxTime-time.Since(r.begun)))
	}
	return d
}

// claim asks the lanes that have work; where none is known to, it looks who has. False
// means that nothing is due that this run could take now.
func (r *run) claim(ctx context.Context, free int) (bool, error) {
	if time.Since(r.lanes.scanned) >= rescanAfter {
		if err := r.scan(ctx); err != nil {
			return false, err
		}
	}
	asks := r.lanes.asks(free)
	if len(asks) == 0 && r.lanes.moved {
		if err := r.scan(ctx); err != nil {
			return false, err
		}
		asks = r.lanes.asks(free)
	}
	if len(asks) == 0 {
		return false, nil
	}
	return true, r.take(ctx, asks)
}

// take claims and sends.
func (r *run) take(ctx context.Context, asks []work.Ask) error {
	request := work.ClaimRequest{Owner: r.o.Owner, Asks: asks, InlineMax: inlineMax}
	for _, a := range asks {
		for range a.Room {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make an attempt id: %w", err)
			}
			request.AttemptIDs = append(request.AttemptIDs, id)
		}
	}
	sent := time.Now() // the lease is counted from before the claim was sent
	result, err := r.store.Claim(ctx, request)
	if err != nil {
		return err
	}
	claimed := result.Claimed
	r.noteClaim(asks, claimed)
	r.recorder.flying.Add(int64(len(claimed)))
	for _, c := range claimed {
		la := r.lanes.byID[c.DestinationID]
		la.busy++
		r.busy++
		r.tally.claimed(c)
		r.senders.start(c, la.endpoint, sent)
	}
	return nil
}

// noteClaim moves the marks on and notes which lanes had less than was asked for.
func (r *run) noteClaim(asks []work.Ask, claimed []work.Claimed) {
	r.lanes.moved = r.lanes.moved || len(claimed) > 0
	type kind struct {
		destination int64
		suspects    bool
	}
	got := make(map[kind]int, len(asks))
	for _, c := range claimed {
		got[kind{c.DestinationID, c.Suspect}]++
		if la := r.lanes.byID[c.DestinationID]; c.Due.After(la.mark) && !c.Suspect {
			la.mark = c.Due
		}
	}
	for _, a := range asks {
		la, all := r.lanes.byID[a.DestinationID], got[kind{a.DestinationID, a.Suspects}] == a.Room
		if a.Suspects {
			la.suspects, la.suspectBusy = all, all
		} else {
			la.dry = !all
		}
	}
}

// scan looks who has work, and forgets the marks.
func (r *run) scan(ctx context.Context) error {
	survey, err := r.store.Survey(ctx)
	if err != nil {
		return err
	}
	r.lanes.order = r.lanes.order[:0]
	for _, d := range survey.Due {
		if len(r.o.Destinations) > 0 && !slices.Contains(r.o.Destinations, d.Name) {
			continue
		}
		la := r.lanes.byID[d.ID]
		if la == nil {
			la = &lane{}
			r.lanes.byID[d.ID] = la
		}
		r.refresh(la, d)
		la.mark, la.dry, la.suspects = time.Time{}, false, d.Suspects
		r.lanes.order = append(r.lanes.order, la)
	}
	r.lanes.next, r.lanes.moved = 0, false
	r.lanes.scanned = time.Now()
	return nil
}

// refresh makes a lane's endpoint ready where its destination is new or has changed.
func (r *run) refresh(la *lane, d work.Destination) {
	if la.destination.ID == d.ID && la.destination.UpdatedAt.Equal(d.UpdatedAt) {
		return
	}
	la.destination = d
	la.endpoint, la.held = r.o.Endpoint(d)
	if la.held != nil {
		return
	}
	la.cap = la.endpoint.Policy.MaxInFlight
	if d.MaxInFlight > 0 {
		la.cap = d.MaxInFlight
	}
}
