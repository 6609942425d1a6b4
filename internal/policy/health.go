package policy

import (
	"fmt"
	"math"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// refusalsToPause is how many 401 and 403 in a row pause a destination: each one is a
	// dead letter, and the next thousand would be refused as well.
	refusalsToPause = 5
	// PausedBy is the operator of a pause that a worker made.
	PausedBy = "whctl"
	// burstFor is how much of a rate may begin at the same instant, so that a high rate
	// does not need a claim for each delivery.
	burstFor = 20 * time.Millisecond
	// maxSlack is about how late a claim comes on a busy machine.
	maxSlack = 5 * time.Millisecond
	// askedLate is more than what lies between the beginning of a transaction, which is its
	// instant, and its question.
	askedLate = 10 * time.Second
)

// Admission says how many deliveries to a destination may begin now.
type Admission struct {
	Room  int       // at most; math.MaxInt where nothing bounds it
	Probe bool      // the one that may begin tries out a circuit
	Hold  work.Hold // why none may; "" where some may
	Until time.Time // when to ask again; zero: nobody knows
	Why   string    // Hold in a line for people
}

// Admit says what a destination's health allows at asOf, the database's clock. Requests
// in flight are counted elsewhere.
func (p Policy) Admit(h work.Health, asOf time.Time) Admission {
	switch {
	case !h.Pause.At.IsZero():
		return Admission{Hold: work.HoldPaused, Why: fmt.Sprintf("paused by %s: %s", h.Pause.By, h.Pause.Reason)}
	case h.HeldUntil.After(asOf):
		return Admission{Hold: work.HoldRetryAfter, Until: h.HeldUntil, Why: "the receiver asked for a pause"}
	case !p.open(h):
		return p.admitRate(h, asOf)
	case h.OpenUntil.After(asOf):
		return Admission{Hold: work.HoldCircuit, Until: h.OpenUntil, Why: fmt.Sprintf("%d failures in a row", h.Failures)}
	case h.ProbeUntil.After(asOf):
		return Admission{Hold: work.HoldCircuit, Until: h.ProbeUntil, Why: "a probe is under way"}
	}
	a := p.admitRate(h, asOf)
	a.Room, a.Probe = min(a.Room, 1), a.Room > 0
	return a
}

func (p Policy) open(h work.Health) bool { return h.Openings > 0 && p.Circuit.Failures > 0 }

// NeedsTicket says that Admit has to be asked while no other worker can.
func (p Policy) NeedsTicket(h work.Health) bool { return p.Rate.N > 0 || h.Openings > 0 }

func (p Policy) admitRate(h work.Health, asOf time.Time) Admission {
	if p.Rate.N == 0 {
		return Admission{Room: math.MaxInt}
	}
	if n := p.Rate.slots(h.NextSlot, asOf); n > 0 {
		return Admission{Room: n}
	}
	return Admission{Hold: work.HoldRate, Until: h.NextSlot.Add(-p.Rate.ahead()), Why: "its rate of " + p.Rate.String() + " is used up"}
}

// Spend is h after taken deliveries began at asOf, which Admit had allowed.
func (p Policy) Spend(h work.Health, asOf time.Time, taken int) work.Health {
	if taken == 0 {
		return h
	}
	if p.open(h) {
		h.ProbeUntil = asOf.Add(p.Lease)
	}
	if p.Rate.N > 0 {
		h.NextSlot = p.Rate.base(h.NextSlot, asOf).Add(time.Duration(taken) * p.Rate.interval())
	}
	return h
}

// burst is how many may begin at the same instant.
func (r Rate) burst() int {
	return max(1, int(float64(r.N)*float64(burstFor)/float64(r.Per)))
}

// interval is the time between two, so that no window of Per ever sees more than N + 1:
// what a burst is ahead by is taken off the rate.
func (r Rate) interval() time.Duration {
	n := time.Duration(r.N + 1 - r.burst())
	return (r.Per + n - 1) / n
}

// ahead is how far the next slot may lie in the future.
func (r Rate) ahead() time.Duration { return time.Duration(r.burst()-1) * r.interval() }

// slots is how many may begin at asOf. It is the generic cell rate algorithm (ITU-T
// I.371), whose one number makes a token bucket that fits into one column.
func (r Rate) slots(next, asOf time.Time) int {
	base := r.base(next, asOf)
	ahead := asOf.Add(r.ahead()).Sub(base)
	if ahead < 0 {
		return 0
	}
	return int(ahead/r.interval()) + 1
}

// slack is how much of a moment that was missed is made up: without it each claim that
// comes a little late would lower the rate. It is less than an interval, so that the bound
// of N + 1 stands.
func (r Rate) slack() time.Duration { return min(r.interval()/4, maxSlack) }

// base is when the next may begin at the earliest. One further off than this rate ever puts
// it comes from a slower rate that was in force before, of up to an hour, and says nothing.
func (r Rate) base(next, asOf time.Time) time.Time {
	if next.Sub(asOf) > time.Duration(r.burst())*r.interval()+askedLate {
		return asOf
	}
	return latest(next, asOf.Add(-r.slack()))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Judge is h after the outcomes of t, that became known at asOf.
func (p Policy) Judge(h work.Health, asOf time.Time, t work.Trial) work.Health {
	for i, o := range t.Outcomes {
		h = p.judge(h, asOf, o, t.Probe && i == 0)
	}
	return h
}

func (p Policy) judge(h work.Health, asOf time.Time, o work.Outcome, probe bool) work.Health {
	if probe {
		h.ProbeUntil = time.Time{}
	}
	switch {
	case o.Class == "", o.Class == work.Lost, o.Class == work.Blocked, o.Class == work.Invalid:
		return h // says nothing about the receiver: nothing reached it, or nobody knows
	case p.retries(o):
		h = p.failed(h, asOf, o, probe)
	default: // an answer, welcome or not: the receiver is there
		h.Failures, h.Openings, h.OpenUntil, h.ProbeUntil = 0, 0, time.Time{}, time.Time{}
	}
	if o.Class != work.Unauthorized {
		if judgedByStatus(o) { // no answer says nothing about the credentials
			h.Refusals, h.RefusedSince = 0, time.Time{}
		}
		return h
	}
	if h.Refusals == 0 || h.DeliveredAt.After(h.RefusedSince) { // by another worker, which knew of no refusal
		h.Refusals, h.RefusedSince = 0, asOf
	}
	h.Refusals++
	if h.Refusals >= refusalsToPause && h.Pause.At.IsZero() {
		h.Pause = work.Pause{At: asOf, By: PausedBy, Reason: fmt.Sprintf("auto-paused: credentials (%d answers of 401 or 403 in a row)", h.Refusals)}
	}
	return h
}

// retries says that an outcome is a failure that another attempt may mend.
func (p Policy) retries(o work.Outcome) bool {
	return o.Class != work.OK && (!judgedByStatus(o) || p.RetryStatus.Contains(o.Status))
}

func (p Policy) failed(h work.Health, asOf time.Time, o work.Outcome, probe bool) work.Health {
	h.Failures = min(h.Failures+1, math.MaxInt32)
	if (o.Status == 429 || o.Status == 503) && o.RetryAfter > 0 && p.RetryAfterMax > 0 {
		h.HeldUntil = latest(h.HeldUntil, asOf.Add(min(o.RetryAfter, p.RetryAfterMax)))
	}
	switch {
	case p.Circuit.Failures == 0:
		h.Openings, h.OpenUntil, h.ProbeUntil = 0, time.Time{}, time.Time{}
	case probe && h.Openings > 0, h.Openings == 0 && h.Failures >= p.Circuit.Failures:
		h.Openings = min(h.Openings+1, math.MaxInt32)
		rest := Backoff{Kind: Exponential, Base: p.Circuit.OpenFor, Cap: p.Circuit.OpenMax}
		h.OpenUntil, h.ProbeUntil = asOf.Add(rest.Wait(h.Openings, 0)), time.Time{}
	}
	return h
}
