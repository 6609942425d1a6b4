package deliver

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// beatAfter is how often a run tells the others that it is there, idleBeatAfter how
	// often one that waits does; pgstore takes it for gone after three seconds.
	beatAfter     = 500 * time.Millisecond
	idleBeatAfter = time.Second
	// shareWait is how long a run waits for a share of a destination that others use up:
	// within it they give some of theirs away or, being dead, are found to be.
	shareWait = 6 * time.Second
)

// shares are this run's part in what all workers may have in flight.
type shares struct {
	entered bool // the others know of this run
	rivals  bool // there are others
	waiting bool // the others know that this run waits to be woken
	beaten  time.Time
}

// beatIn is how long it is until the next beat.
func (s shares) beatIn() time.Duration {
	every := beatAfter
	if s.waiting {
		every = idleBeatAfter
	}
	return every - time.Since(s.beaten)
}

// beat tells the others that this run is there, and takes its shares anew where they may
// have changed.
func (r *run) beat(ctx context.Context, waiting bool) error {
	others, known, err := r.store.Beat(ctx, r.o.Owner, waiting)
	if err != nil {
		return err
	}
	before := r.shares
	r.shares = shares{entered: true, rivals: others > 0, waiting: waiting, beaten: time.Now()}
	if known && before.entered && !before.rivals && others == 0 && !r.unshared() {
		return nil
	}
	return r.reshare(ctx)
}

// unshared says that a lane with work has less than it could use.
func (r *run) unshared() bool {
	return slices.ContainsFunc(r.lanes.order, func(la *lane) bool { return la.held == nil && la.room < min(la.to.Policy.MaxInFlight, r.o.Places) })
}

// unasked says that no share was asked for a lane with work.
func (r *run) unasked() bool {
	return slices.ContainsFunc(r.lanes.order, func(la *lane) bool { return la.held == nil && !la.asked })
}

// reshare asks for a share of every destination that has work or something in flight,
// and gives up all others.
func (r *run) reshare(ctx context.Context) error {
	for _, la := range r.lanes.byID {
		la.asked = la.busy > 0
	}
	for _, la := range r.lanes.order {
		la.asked = la.busy > 0 || la.held == nil
	}
	var wants []work.Want
	for id, la := range r.lanes.byID {
		if la.asked {
			wants = append(wants, work.Want{DestinationID: id, Cap: la.to.Policy.MaxInFlight, Busy: la.busy})
		}
	}
	got, err := r.store.Shares(ctx, r.o.Owner, wants)
	if errors.Is(err, work.ErrNoWorker) {
		r.takenOut()
		return nil
	}
	if err != nil {
		return err
	}
	for _, la := range r.lanes.byID {
		la.room = 0
	}
	for _, s := range got {
		r.lanes.byID[s.DestinationID].room = s.Room
	}
	return nil
}

// takenOut notes that this run was silent for too long: the others have its shares, and
// it has to enter anew before its next claim.
func (r *run) takenOut() {
	r.shares = shares{}
	for _, la := range r.lanes.byID {
		la.asked, la.room = false, 0
	}
}

// leave gives up the shares. What could not be given up is found by the others.
func (r *run) leave(ctx context.Context) {
	if !r.shares.entered {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	if err := r.store.Leave(ctx, r.o.Owner, r.tally.sum.Unrecorded == 0); err != nil {
		r.o.Log.Warn("the shares of this run could not be given up; other workers take them over in a few seconds", "error", err)
	}
}

// leaveWithin bounds what a run does at its end for others.
const leaveWithin = 5 * time.Second
