package policy

import (
	"fmt"
	"time"

	"example.com/whctl/internal/work"
)

// BackoffKind names how the waits between attempts grow.
type BackoffKind string

// The kinds of backoff.
const (
	Exponential BackoffKind = "exponential" // base × 2^(n-1), at most cap
	Fixed       BackoffKind = "fixed"       // delay, each time
	Schedule    BackoffKind = "schedule"    // an explicit list; its last entry repeats
)

// Backoff says how long to wait after the nth attempt of a generation.
type Backoff struct {
	Kind     BackoffKind
	Base     time.Duration   // Exponential
	Cap      time.Duration   // Exponential
	Delay    time.Duration   // Fixed
	Schedule []time.Duration // Schedule
	Jitter   float64         // laid on top, as a fraction of the delay: 0.2 adds up to 20 %
}

// Policy is how one kind of destination is treated. The zero value is not usable;
// Default is where configuration starts from.
type Policy struct {
	Name           string
	MaxAttempts    int           // total attempts in one generation
	Timeout        time.Duration // one request, connect to last byte
	Lease          time.Duration // must exceed Timeout + WriteMargin
	WriteMargin    time.Duration // kept free at the end of the lease for recording
	Backoff        Backoff
	RetryAfterMax  time.Duration // bounds what a receiver may ask for
	RetryStatus    StatusSet     // non-2xx answers that are retried; all others are dead at once
	MaxInFlight    int           // per destination
	Rate           Rate          // per destination; zero is unlimited
	Circuit        Circuit
	Body           work.BodyKind
	SuccessBodyMax int // bytes of a 2xx answer kept as evidence
}

// For is p for d, with the limits that d has itself in the place of p's.
func (p Policy) For(d work.Destination) (Policy, error) {
	if d.MaxInFlight > 0 {
		p.MaxInFlight = d.MaxInFlight
	}
	if d.Rate == "" {
		return p, nil
	}
	rate, err := ParseRate(d.Rate)
	if err != nil {
		return p, fmt.Errorf("rate: %w", err)
	}
	p.Rate = rate
	return p, nil
}

// Rate is a number of deliveries per time. The zero value is unlimited.
type Rate struct {
	N   int
	Per time.Duration
}

// Circuit says when a destination is given a rest.
type Circuit struct {
	Failures int           // consecutive retryable failures that open it; 0: never
	OpenFor  time.Duration // the first rest
	OpenMax  time.Duration // rests grow up to this
}

// Verdict is what is to become of a delivery.
type Verdict string

// The verdicts.
const (
	Deliver Verdict = "deliver"
	Retry   Verdict = "retry"
	Die     Verdict = "dead"
	Cancel  Verdict = "cancel"  // no longer wanted; the attempt is not charged
	Release Verdict = "release" // claimed and provably not sent; the attempt is not charged
)

// Decision is a verdict with the reason that log, table and screen print.
type Decision struct {
	Verdict Verdict
	Delay   time.Duration // Retry: from the moment the result is recorded
	Reason  work.Reason   // Die and Cancel
	Why     string        // one line for people, such as "503, attempt 3 of 8: again in 4s"
}
