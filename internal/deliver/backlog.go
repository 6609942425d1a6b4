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
	for _, b := range left {
		due += b.Due
		if sum.OldestDueAge == nil || b.OldestAge > *sum.OldestDueAge {
			sum.OldestDueAge = &b.OldestAge
		}
		if hold := r.heldBack(r.lanes.byID[b.DestinationID], sum.StoppedBy); hold != "" {
			sum.HeldBack[hold] += b.Due
		}
	}
	sum.DueRemaining = &due
}

// backlog counts what is due of the destinations that this run is for, and tells it.
func (r *run) backlog(ctx context.Context, within time.Duration) ([]work.Backlog, bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all, err := r.store.Backlog(ctx)
	if err != nil {
		r.o.Log.Warn("what is left could not be counted", "error", err)
		return nil, false
	}
	var mine []work.Backlog
	var due int64
	var oldest time.Duration
	for _, b := range all {
		if len(r.o.Destinations) > 0 && r.lanes.byID[b.DestinationID] == nil {
			continue
		}
		mine = append(mine, b)
		due, oldest = due+b.Due, max(oldest, b.OldestAge)
	}
	r.o.observed().Backlog(due, oldest)
	return mine, true
}

// heldBack is why what is due for a lane is not claimed, "" where it might be. Places at
// others' disposal, and tickets that others took each time, are a reason only for a run
// that has come to its end.
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
	case why != Drained:
		return ""
	case la.limit() <= la.busy:
		return work.HoldInFlight
	case la.turned > 0 && la.to.Policy.Rate.N > 0:
		return work.HoldRate
	case la.turned > 0:
		return work.HoldCircuit // nothing else takes a ticket
	}
	return ""
}

// observeBacklog counts from time to time in a worker that is observed, the more seldom
// the longer it takes.
func (r *run) observeBacklog(ctx context.Context) {
	if r.o.Observe == nil || !r.serve || time.Since(r.counted) < max(backlogEvery, pollShare*r.countCost) {
		return
	}
	began := time.Now()
	r.backlog(ctx, countWithin)
	r.counted, r.countCost = time.Now(), time.Since(began)
}
