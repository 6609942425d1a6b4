package policy

import (
	"fmt"
	"strconv"
	"time"

	"example.com/whctl/internal/work"
)

// Decide says what becomes of a delivery whose attempt number attempt (counted from 1
// within its generation) ended as o. random returns numbers in [0,1) and is asked only
// where a backoff is computed.
func (p Policy) Decide(o work.Outcome, attempt int, random func() float64) Decision {
	head := label(o) + ", attempt " + strconv.Itoa(attempt) + " of " + strconv.Itoa(p.MaxAttempts)
	switch {
	case o.Class == work.OK:
		return Decision{Verdict: Deliver, Why: head + ": delivered"}
	case o.Class == work.Blocked:
		return die(work.ReasonBlocked, head, "the address is refused")
	case o.Class == work.Invalid:
		return die(work.ReasonInvalid, head, "the request cannot be sent")
	case judgedByStatus(o) && !p.RetryStatus.Contains(o.Status):
		return die(work.ReasonPermanent, head, fmt.Sprintf("%d is not retried", o.Status))
	case attempt >= p.MaxAttempts && o.Class == work.Lost:
		return die(work.ReasonLost, head, "the effect of the last attempt is unknown")
	case attempt >= p.MaxAttempts:
		return die(work.ReasonExhausted, head, "the last attempt is spent")
	case o.Class == work.Lost:
		// The lease that ran out was the wait.
		return Decision{Verdict: Retry, Why: head + ": due again at once"}
	}
	delay, note := p.delay(o, attempt, random())
	return Decision{Verdict: Retry, Delay: delay, Why: fmt.Sprintf("%s: again in %s%s", head, brief(delay), note)}
}

// judgedByStatus tells answers that the status mapping judges from failures without
// one. A class without its status is retried: that loses nothing. Protocol may carry
// a status (099, 999), but none that the mapping could name.
func judgedByStatus(o work.Outcome) bool {
	switch o.Class {
	case work.Timeout, work.DNS, work.Connect, work.TLS, work.Reset, work.Protocol, work.BlockedName, work.Lost:
		return false
	}
	return o.Status != 0
}

// delay is the wait before the next attempt, and a remark where the receiver asked
// for it. What the receiver asks replaces the computed wait, without jitter; bounded by
// RetryAfterMax, but then not earlier than the computed wait.
func (p Policy) delay(o work.Outcome, attempt int, random float64) (time.Duration, string) {
	computed := p.Backoff.Wait(attempt, random)
	switch {
	case !judgedByStatus(o) || o.RetryAfter <= 0 || p.RetryAfterMax <= 0:
		return computed, ""
	case o.RetryAfter > p.RetryAfterMax:
		return max(p.RetryAfterMax, min(computed, o.RetryAfter)),
			fmt.Sprintf(", the receiver asked for %s", brief(o.RetryAfter))
	}
	return o.RetryAfter, ", as the receiver asked"
}

func die(reason work.Reason, head, why string) Decision {
	return Decision{Verdict: Die, Reason: reason, Why: head + ": dead, " + why}
}

// label names an outcome in one word: its status where the class says no more.
func label(o work.Outcome) string {
	switch {
	case !o.Class.Known():
		return fmt.Sprintf("unknown class %q", string(o.Class))
	case judgedByStatus(o):
		return strconv.Itoa(o.Status)
	case o.Status != 0:
		return fmt.Sprintf("%s %d", o.Class, o.Status)
	}
	return string(o.Class)
}

// brief cuts for people: to milliseconds, from ten seconds on to seconds.
func brief(d time.Duration) string {
	if d >= 10*time.Second {
		return d.Truncate(time.Second).String()
	}
	return d.Truncate(time.Millisecond).String()
}
