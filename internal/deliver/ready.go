package deliver

import (
	"time"

	"example.com/whctl/internal/work"
)

// retiredFor is how long a worker that stays leaves a destination alone that could not be
// made ready, or after a fault of its guard or of reading its payload.
const retiredFor = 30 * time.Second

// refresh makes a lane's endpoint ready where its destination is new or has changed, and
// in a worker that stays also from time to time where it is held by a fault.
func (r *run) refresh(la *lane, d work.Destination) {
	again := r.serve && la.held != nil && time.Since(la.retired) >= retiredFor
	if la.to != nil && la.destination.ID == d.ID && la.destination.UpdatedAt.Equal(d.UpdatedAt) && !again {
		return
	}
	la.destination = d
	to, err := r.o.Endpoint(d)
	if err == nil {
		to.Policy, err = to.Policy.For(d)
	}
	switch {
	case err != nil:
		r.cannotMake(la, err)
	case la.held != nil:
		r.o.Log.Info(said(false), "destination", d.Name, "hold", string(work.HoldNotReady))
	}
	la.held = err
	if err != nil && la.to != nil {
		return // those in flight go on with what they began with
	}
	la.to = &to
	la.asked = false
}

// cannotMake notes that a destination cannot be made ready. A worker that stays says so
// where that is news; the summary of a run does.
func (r *run) cannotMake(la *lane, err error) {
	la.retired = time.Now()
	if r.serve && (la.held == nil || la.held.Error() != err.Error()) {
		r.o.Log.Error(said(true), "destination", la.destination.Name, "hold", string(work.HoldNotReady), "why", err)
	}
}
