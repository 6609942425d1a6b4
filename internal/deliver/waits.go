package deliver

import (
	"context"
	"errors"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// rateWait is how long a bounded run waits for a slot of a rate.
	rateWait = 5 * time.Second
	// pollEvery is how often a worker that nobody wakes looks who has work.
	pollEvery = time.Second
	// pollShare is the part of the time that looking may take: one in so many.
	pollShare = 50
	// noticeShare is that part where notices come in all the time.
	noticeShare = 5
	// never is longer than any wait.
	never = time.Hour
)

// pollAfter is how long a worker waits before it looks again who has work.
func (l *lanes) pollAfter() time.Duration { return max(pollEvery, pollShare*l.price()) }

// stale says that another scan may find something, and that it is not too soon for one.
func (r *run) stale() bool {
	becameDue := r.serve && !r.nextDue.IsZero() && !r.nextDue.After(r.clock.now())
	return (r.lanes.moved || becameDue) && r.lookIn() <= 0 || r.serve && time.Since(r.lanes.scanned) >= r.lanes.pollAfter()
}

// lookIn is how long it is until another scan is worth its price. A worker does not look
// at each notice that it gets. A bounded run with nothing under way looks at once, to see
// whether it has come to its end.
func (r *run) lookIn() time.Duration {
	price := r.lanes.price()
	switch {
	case r.serve:
		return noticeShare*price - time.Since(r.lanes.scanned)
	case r.busy == 0:
		return 0
	}
	return rescanShare*price - time.Since(r.lanes.scanned)
}

// next is how long to wait until something may be claimed, as far as that is known, and
// whether that is worth waiting for by a run that has nothing else to do.
func (r *run) next() (wait time.Duration, worthwhile bool) {
	now := r.clock.now()
	wait = never
	look := r.lookIn()
	if r.serve && !r.nextDue.IsZero() {
		wait = max(r.nextDue.Sub(now), look)
	}
	for _, la := range r.lanes.order {
		d, ok := r.lull(la, now)
		wait, worthwhile = min(wait, d), worthwhile || ok
	}
	if r.lanes.moved {
		wait = min(wait, look)
	}
	return max(wait, time.Millisecond), worthwhile
}

// lull is how long a lane with work has to wait, and whether a bounded run would.
func (r *run) lull(la *lane, now time.Time) (time.Duration, bool) {
	if !la.has() {
		return never, false
	}
	if la.limit() <= la.busy { // a result, or the next beat, may change that
		return never, la.busy == 0 && time.Since(r.claimed) < shareWait
	}
	if shut := la.shut.Sub(now); shut > 0 {
		return shut, time.Since(r.claimed) < shareWait
	}
	a := la.to.Policy.Admit(la.health, now)
	switch {
	case a.Room > 0: // since this turn looked
		return 0, true
	case a.Until.IsZero():
		return never, false
	}
	wait := a.Until.Sub(now)
	return wait, a.Hold == work.HoldRate && wait <= rateWait
}

// outageWait bounds the wait between two tries to reach the database.
const outageWait = 5 * time.Second

// sitsOut says that err is one which a worker sits out: the database cannot be reached,
// or gives up what it is asked.
func (r *run) sitsOut(err error) bool {
	if !r.serve || !errors.Is(err, work.ErrUnreachable) && !errors.Is(err, work.ErrContended) {
		return false
	}
	if r.tries == 0 {
		r.o.Log.Warn("the database does not do what it is asked; trying on", "error", err)
	}
	r.tries++
	return true
}

// answered notes that the database does what it is asked.
func (r *run) answered() {
	if r.tries > 0 {
		r.o.Log.Info("the database does what it is asked again")
	}
	r.tries = 0
}

// pause waits before the database is tried again.
func (r *run) pause(ctx context.Context) {
	t := time.NewTimer(min(time.Duration(r.tries)*time.Second, outageWait))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
