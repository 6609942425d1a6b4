package deliver

import (
	"context"
	"errors"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// settleReady takes in what has been recorded, without waiting.
func (r *run) settleReady() error {
	for {
		select {
		case s := <-r.recorder.settled:
			if err := r.settle(s); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// settle frees the places of recorded results and counts them. Its error is one that
// the run cannot go on with.
func (r *run) settle(s settled) error {
	r.recorder.flying.Add(-int64(len(s.done)))
	r.recorder.ended.Add(-int64(len(s.done)))
	for _, h := range s.health {
		r.see(r.lanes.byID[h.DestinationID], h)
	}
	for i, d := range s.done {
		r.busy--
		la := r.lanes.byID[d.claimed.DestinationID]
		la.busy--
		if d.claimed.Suspect {
			la.suspectBusy, r.lanes.moved = false, true
		}
		if s.err != nil {
			d.tell(r.o.observed(), 0, s.err)
			continue // not recorded: the lease will end, and the attempt be closed as lost
		}
		r.tally.recorded(d, s.fates[i], r.o.Random)
		d.tell(r.o.observed(), s.fates[i], nil)
		if d.retired != nil && la.held == nil {
			la.held, la.retired = d.retired, time.Now()
			r.o.Log.Error(said(true), "destination", la.destination.Name, "hold", string(work.HoldNotReady), "why", d.decision.Why)
		}
		if d.claimed.Lost || d.decision.Verdict == policy.Release {
			r.lanes.moved = true
		}
		r.report(d, s.fates[i], la)
	}
	if s.err == nil {
		return nil
	}
	r.tally.sum.Unrecorded += len(s.done)
	if fatal(s.err) {
		return s.err
	}
	r.o.Log.Error("a result could not be recorded; its attempt will be closed as lost when the lease ends",
		"delivery_id", s.done[0].claimed.Envelope.DeliveryID, "error", s.err)
	return nil
}

// fatal says that the database will not take any other result either.
func fatal(err error) bool {
	return errors.Is(err, work.ErrUnreachable) || errors.Is(err, work.ErrGrant) || errors.Is(err, work.ErrSchema)
}

// report writes one line about what became of a delivery.
func (r *run) report(d done, fate work.Fate, la *lane) {
	level, c := logLevel(d), &d.claimed
	if !r.o.Log.Enabled(context.Background(), level) {
		return // nothing of the line is made for nobody
	}
	r.o.Log.Log(context.Background(), level, "attempt "+string(d.decision.Verdict),
		"delivery_id", c.Envelope.DeliveryID, "destination", la.destination.Name, "attempt_id", c.AttemptID.String(),
		"generation", c.Generation, "attempt", c.Attempt, "class", string(d.outcome.Class), "status", statusOf(d.outcome),
		"why", d.decision.Why, "message", d.outcome.Message, "late", fate != work.Written)
}

// statusOf is the status for a log, nothing where there was none.
func statusOf(o work.Outcome) any {
	if o.Status == 0 {
		return nil
	}
	return o.Status
}

// windUp waits for what is in flight: as long as it takes after an ordinary end, for
// the grace after a signal. Then it closes the recorder.
func (r *run) windUp(ctx context.Context, why StoppedBy) error {
	var first error
	var graceOver <-chan time.Time
	signalled := ctx.Done()
	if why == Signal {
		signalled = nil
		graceOver = r.graceBegins()
	}
	for r.busy > 0 {
		select {
		case s := <-r.recorder.settled:
			if err := r.settle(s); err != nil && first == nil {
				first = err
			}
		case <-signalled:
			signalled = nil
			graceOver = r.graceBegins()
		case <-graceOver:
			r.senders.breakOff()
			r.recorder.hurry()
			graceOver = nil
		}
	}
	r.senders.end()
	r.recorder.stop()
	return first
}

func (r *run) graceBegins() <-chan time.Time {
	r.o.Log.Info("stopping: nothing more is claimed, what is in flight may end", "in_flight", r.busy, "grace", r.o.Grace.String())
	return time.After(r.o.Grace)
}
