package policy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"example.com/whctl/internal/work"
)

// Bounds of a policy's values. They are far from any use, and keep sums of durations
// and numbers in the tables inside their types.
const (
	MaxMaxAttempts    = 1000
	MaxTimeout        = time.Hour
	MaxLease          = 24 * time.Hour
	MaxWait           = 366 * 24 * time.Hour
	MaxMaxInFlight    = 10_000
	MaxScheduleLength = 1000
	MaxFailures       = 1_000_000
	MaxSuccessBody    = 64 << 10 // bytes
)

// Default is the policy that every configuration starts from: eight attempts, rate
// unlimited.
func Default() Policy {
	return Policy{
		Name:          "default",
		MaxAttempts:   8,
		Timeout:       10 * time.Second,
		Lease:         time.Minute,
		WriteMargin:   2 * time.Second,
		Backoff:       Backoff{Kind: Exponential, Base: time.Second, Cap: 15 * time.Minute, Jitter: 0.2},
		RetryAfterMax: time.Hour,
		RetryStatus:   defaultRetryStatus(),
		MaxInFlight:   16,
		Circuit:       Circuit{Failures: 20, OpenFor: 30 * time.Second, OpenMax: 15 * time.Minute},
		Body:          work.BodyEnvelope,
	}
}

// defaultRetryStatus is 408, 425, 429 and 5xx: answers that time may mend. 5xx goes by
// range, for receivers and their proxies use far more codes than are registered.
func defaultRetryStatus() StatusSet {
	return StatusSet{}.with(408, 408).with(425, 425).with(429, 429).with(500, 599)
}

// FieldError is what is wrong with one value of a policy. Field is its key in the
// configuration, below the policy's name, such as backoff.cap.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// check collects what is wrong, in the order of the keys.
type check []error

func (c *check) want(ok bool, field, format string, args ...any) {
	if !ok {
		*c = append(*c, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
}

func (c *check) number(field string, n, low, high int) {
	c.want(n >= low && n <= high, field, "%d is out of bounds (want %d to %d)", n, low, high)
}

func (c *check) positive(field string, d, limit time.Duration) {
	c.want(d > 0 && d <= limit, field, "%s is out of bounds (want more than 0s, at most %s)", d, limit)
}

// Validate says everything that is wrong with p, joined, each part a *FieldError; or
// nil.
func (p Policy) Validate() error {
	var c check
	c.number("max_attempts", p.MaxAttempts, 1, MaxMaxAttempts)
	c.positive("timeout", p.Timeout, MaxTimeout)
	c.positive("write_margin", p.WriteMargin, MaxLease)
	c.positive("lease", p.Lease, MaxLease)
	// Subtraction: a sum of two hostile durations could overflow.
	c.want(max(p.Lease, 0)-max(p.Timeout, 0) > p.WriteMargin, "lease",
		"%s does not exceed timeout %s + write_margin %s (a lease must cover one request and the write after it)",
		p.Lease, p.Timeout, p.WriteMargin)
	c.backoff(p.Backoff)
	c.want(p.RetryAfterMax >= 0 && p.RetryAfterMax <= MaxWait, "retry_after_max",
		"%s is out of bounds (want 0s, which ignores Retry-After, to %s)", p.RetryAfterMax, MaxWait)
	c.number("max_in_flight", p.MaxInFlight, 1, MaxMaxInFlight)
	_, err := ParseRate(p.Rate.String())
	c.want(err == nil, "rate", "%s is no rate (want 1 to %d per second, minute or hour)", p.Rate, MaxRate)
	c.number("circuit.failures", p.Circuit.Failures, 0, MaxFailures)
	if p.Circuit.Failures > 0 {
		c.positive("circuit.open_for", p.Circuit.OpenFor, MaxWait)
		c.positive("circuit.open_max", p.Circuit.OpenMax, MaxWait)
		c.want(p.Circuit.OpenMax >= p.Circuit.OpenFor, "circuit.open_max",
			"%s is less than open_for %s", p.Circuit.OpenMax, p.Circuit.OpenFor)
	}
	c.want(p.Body == work.BodyEnvelope || p.Body == work.BodyRaw, "body",
		"%q is no kind of body (want %s or %s)", string(p.Body), work.BodyEnvelope, work.BodyRaw)
	c.number("success_body_max", p.SuccessBodyMax, 0, MaxSuccessBody)
	return errors.Join(c...)
}

func (c *check) backoff(b Backoff) {
	switch b.Kind {
	case Exponential:
		c.positive("backoff.base", b.Base, MaxWait)
		c.positive("backoff.cap", b.Cap, MaxWait)
		c.want(b.Cap >= b.Base, "backoff.cap", "%s is less than base %s", b.Cap, b.Base)
	case Fixed:
		c.positive("backoff.delay", b.Delay, MaxWait)
	case Schedule:
		c.number("backoff.schedule", len(b.Schedule), 1, MaxScheduleLength)
		for i, d := range b.Schedule {
			c.want(d > 0 && d <= MaxWait, "backoff.schedule", "entry %d, %s, is out of bounds (want more than 0s, at most %s)", i+1, d, MaxWait)
		}
	default:
		c.want(false, "backoff.type", "%q is no kind of backoff (want %s, %s or %s)", string(b.Kind), Exponential, Fixed, Schedule)
	}
	c.want(!math.IsNaN(b.Jitter) && b.Jitter >= 0 && b.Jitter <= 1, "backoff.jitter", "%g is out of bounds (want 0 to 1)", b.Jitter)
}
