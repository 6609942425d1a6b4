package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

const (
	// PayloadMemory is how many bytes of payloads are held at a time, unless told otherwise.
	PayloadMemory = 16 << 20
	// inlineMax is the size up to which a payload comes with its claim, where there is
	// memory for as many as there are places; larger ones are read one by one.
	inlineMax = 32 << 10
)

// job is a claimed delivery to be carried out.
type job struct {
	claimed work.Claimed
	to      *Endpoint
	begun   time.Time // when its claim was sent
	clean   bool      // nothing was known against its destination
	probe   bool      // it tries out its destination's circuit
}

// done is what became of a job, on its way to be recorded.
type done struct {
	job
	outcome  work.Outcome
	decision policy.Decision
	retired  error // why its destination gets nothing more in this run; nil: it does
}

// senders carry out what was claimed, each delivery on a goroutine that is its own as long
// as it lasts. Those that are done wait for the next one: a new goroutine's stack would
// have to grow, copied each time, until an attempt fits.
type senders struct {
	store     Store
	o         Options
	result    func(done)
	next      chan job            // to a goroutine that waits; closed: they end
	apart     int64               // bytes of payloads that are read apart from their claims, at a time
	budget    *semaphore.Weighted // of them
	asking    *semaphore.Weighted // of questions to the database beside claims and records
	inlineMax int                 // bytes of a payload that come with its claim
	stop      context.Context     // ended: nothing new is sent
	flight    context.Context     // ended: what is in flight is broken off
	cut       context.CancelFunc
}

func newSenders(inner, stop context.Context, store Store, o Options, result func(done)) *senders {
	memory := o.PayloadMemory
	if memory == 0 {
		memory = PayloadMemory
	}
	s := &senders{store: store, o: o, result: result, next: make(chan job), asking: semaphore.NewWeighted(1), stop: stop}
	s.inlineMax = int(min(inlineMax, memory/2/int64(o.Places)))
	s.apart = memory - int64(s.inlineMax)*int64(o.Places)
	s.budget = semaphore.NewWeighted(s.apart)
	s.flight, s.cut = context.WithCancel(inner)
	return s
}

// end lets the goroutines go that wait. Nothing is started any more.
func (s *senders) end() { close(s.next) }

// breakOff ends what is in flight; its effect is unknown then.
func (s *senders) breakOff() { s.cut() }

// start carries out a job. It never blocks: the channel holds as many results as there
// are places.
func (s *senders) start(j job) {
	switch {
	case j.claimed.Lost:
		s.finish(j, work.Outcome{Class: work.Lost, Message: "the worker was lost: its lease ran out without a result"})
	case j.claimed.Expired:
		s.result(done{job: j, decision: policy.Decision{Verdict: policy.Cancel, Reason: work.ReasonNotAfter, Why: "not_after has passed"}})
	default:
		select {
		case s.next <- j:
		default:
			go s.carryOut(j)
		}
	}
}

// carryOut attempts this job, and after it those that come.
func (s *senders) carryOut(j job) {
	for more := true; more; j, more = <-s.next {
		s.attempt(j)
	}
}

func (s *senders) attempt(j job) {
	c, to := &j.claimed, j.to
	if ask := s.guard(*c); ask != nil {
		wanted, err := s.wanted(ask)
		if err != nil {
			s.giveBack(j, "its guard could not be checked", err)
			return
		}
		if !wanted {
			s.result(done{job: j, decision: policy.Decision{Verdict: policy.Cancel, Reason: work.ReasonGuard, Why: "its guard says that it is no longer wanted"}})
			return
		}
	}
	payload, free, err := s.payload(*c)
	if err != nil {
		s.giveBack(j, "its payload could not be read", err)
		return
	}
	defer free()
	c.Envelope.Payload = payload
	kind := c.Envelope.Body
	if kind == work.BodyUnset {
		kind = to.Policy.Body
	}
	body, err := c.Envelope.Bytes(kind)
	if err != nil {
		s.finish(j, work.Outcome{Class: work.Invalid, Message: err.Error()})
		return
	}
	c.Envelope.Payload = nil // it stands in the body
	left := to.Policy.Lease - time.Since(j.begun) - to.Policy.WriteMargin
	if left < to.Policy.Timeout {
		var retired error
		if c.PayloadBytes <= s.inlineMax {
			retired = errShortLease
		}
		s.release(j, errShortLease.Error(), retired)
		return
	}
	if s.stop.Err() != nil {
		s.release(j, "the run was stopped", nil)
		return
	}
	outcome := to.Send(s.flight, *c, body, to.Policy.Timeout)
	if outcome.Class == work.Lost && outcome.Unsent {
		s.release(j, "the run was stopped", nil)
		return
	}
	s.finish(j, outcome)
}

// guard is the question about c; nil where it has no guard, and waits for nobody's.
func (s *senders) guard(c work.Claimed) func(context.Context) (bool, error) {
	if s.o.Guard == nil {
		return nil
	}
	return s.o.Guard(c)
}

// wanted asks a guard. One at a time: claims and records must not wait for a connection
// behind them.
func (s *senders) wanted(ask func(context.Context) (bool, error)) (bool, error) {
	if err := s.asking.Acquire(s.stop, 1); err != nil {
		return false, err
	}
	defer s.asking.Release(1)
	return ask(s.flight)
}

// payload is the payload of c and what to call when its bytes are not needed any more.
func (s *senders) payload(c work.Claimed) ([]byte, func(), error) {
	if c.Envelope.Payload != nil || c.PayloadBytes == 0 {
		return c.Envelope.Payload, func() {}, nil
	}
	n := min(int64(c.PayloadBytes), s.apart)
	if err := s.budget.Acquire(s.stop, n); err != nil {
		return nil, nil, err
	}
	b, err := s.read(c.ID)
	if err != nil {
		s.budget.Release(n)
		return nil, nil, err
	}
	return b, func() { s.budget.Release(n) }, nil
}

func (s *senders) read(id int64) ([]byte, error) {
	if err := s.asking.Acquire(s.stop, 1); err != nil {
		return nil, err
	}
	defer s.asking.Release(1)
	return s.store.Payload(s.flight, id)
}

func (s *senders) finish(j job, o work.Outcome) {
	s.result(done{job: j.slim(), outcome: o, decision: j.to.Policy.Decide(o, j.claimed.Attempt, s.o.Random)})
}

// giveBack gives back what could not be made ready. Unless the run was being stopped,
// its destination gets nothing more in this run, which would only meet the same again.
func (s *senders) giveBack(j job, what string, err error) {
	err = fmt.Errorf("%s: %w", what, err)
	if s.stop.Err() != nil {
		s.release(j, err.Error(), nil)
		return
	}
	s.release(j, err.Error(), err)
}

// errShortLease retires a destination without a fault: time was lost between the claim
// and the send, on a machine that stood still or behind a slow guard.
var errShortLease = errors.New("too little of its lease is left to send it")

// release gives back a delivery that was provably not sent.
func (s *senders) release(j job, why string, retired error) {
	s.result(done{job: j.slim(), decision: policy.Decision{Verdict: policy.Release, Why: why}, retired: retired})
}

// slim lets go of the payload, which nobody needs after the send.
func (j job) slim() job {
	j.claimed.Envelope.Payload = nil
	return j
}

// logLevel keeps a run quiet about what goes as it should.
func logLevel(d done) slog.Level {
	switch d.decision.Verdict {
	case policy.Die, policy.Cancel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
