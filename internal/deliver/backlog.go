package deliver

import (
	"context"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// backlogWithin bounds a count of what is due at the end of a run, and countWithin one
	// of a worker, which stands still meanwhile: it must not seem to be gone.
	backlogWithin = 5 * time.Second
	countWithin   = time.Second
	// backlogEvery is how often a worker counts, for its observer.
	backlogEvery = 15 * time.Second
)

// countBacklog completes the summary with what is left. A run that did its work does
// not fail over a count: without one, the numbers stay unknown.
func (r *run) countBacklog(ctx context.Context, sum *Summary) {
	left, ok := r.backlog(ctx, backlogWithin)
	if !ok {
		return
	}
	var due int64
	held := make(map[work.Hold]int)
	for _, b := range left {
		due += b.Due
		if sum.OldestDueAge == nil || b.OldestAge > *sum.OldestDueAge {
			sum.OldestDueAge = &b.OldestAge
		}
		if hold := r.heldBack(r.lanes.byID[b.DestinationID], sum.StoppedBy); hold != "" {
			sum.HeldBack[hold] += b.Due
			held[hold]++
		}
	}
	sum.DueRemaining = &due
	r.o.observed().Held(held)
	r.tellBacklog(left)
}

// backlog counts what is due of the destinations that this run is for.
func (r *run) backlog(ctx context.Context, within time.Duration) ([]work.Backlog, bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all, err := r.store.Backlog(ctx)
	if err != nil {
		r.o.Log.Warn("what is left could not be counted", "error", err)
		return nil, false
	}
	for _, la := range r.lanes.byID {
		la.waiting = 0
	}
	var mine []work.Backlog
	for _, b := range all {
		la := r.lanes.byID[b.DestinationID]
		if len(r.o.Destinations) > 0 && la == nil {
			continue
		}
		mine = append(mine, b)
		if la != nil {
			la.waiting = b.Due
		}
	}
	return mine, true
}

func (r *run) tellBacklog(left []work.Backlog) {
	var due int64
	var oldest time.Duration
	for _, b := range left {
		due, oldest = due+b.Due, max(oldest, b.OldestAge)
	}
	r.o.observed().Backlog(due, oldest)
}

// heldBack is why what is due for a lane is not claimed, "" where it might be. Tickets that
// others took each time are a reason only for a run that has come to its end.
func (r *run) heldBack(la *lane, why StoppedBy) work.Hold {
	switch {
	case la == nil:
		return ""
	case la.held != nil:
		return work.HoldNotReady
	}
	if hold := la.to.Policy.Admit(la.health, r.clock.now()).Hold; hold != "" {
		return hold
	}
	switch {
	case la.capped(why):
		return work.HoldInFlight
	case why != Drained:
		return ""
	case la.turned > 0 && la.to.Policy.Rate.N > 0:
		return work.HoldRate
	case la.turned > 0:
		return work.HoldCircuit // nothing else takes a ticket
	}
	return ""
}

// measure notes what each lane may have in flight beyond what it has, and whether there are
// places for more than that: else it is these that are short, and not the cap.
func (r *run) measure() {
	if !r.shares.entered {
		return // and has asked for nothing
	}
	free := r.free()
	for _, la := range r.lanes.byID {
		la.left = max(0, la.limit()-la.busy)
		la.short = la.asked && (la.left == 0 || la.left < free)
	}
}

// capped says that more was due for a lane, when that was counted, than it could have in
// flight, when that was measured. A drained run had taken all that it could.
func (la *lane) capped(why StoppedBy) bool {
	return la.short && la.waiting > int64(la.left) && (la.left == 0 || why != Drained)
}

// observeBacklog counts from time to time in a worker that is observed, the more seldom
// the longer it takes.
func (r *run) observeBacklog(ctx context.Context) {
	if r.o.Observe == nil || !r.serve || time.Since(r.counted) < max(backlogEvery, pollShare*r.countCost) {
		return
	}
	began := time.Now()
	if left, ok := r.backlog(ctx, countWithin); ok {
		r.tellHeld()
		r.tellBacklog(left)
	}
	r.counted, r.countCost = time.Now(), time.Since(began)
}

// tellHeld tells how many destinations with due work are held back.
func (r *run) tellHeld() {
	if r.o.Observe == nil {
		return
	}
	r.measure()
	held := make(map[work.Hold]int)
	for _, la := range r.lanes.order {
		if hold := r.heldBack(la, ""); hold != "" {
			held[hold]++
		}
	}
	r.o.Observe.Held(held)
}
