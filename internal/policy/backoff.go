package policy

import (
	"math"
	"time"
)

const forever = time.Duration(math.MaxInt64)

// Wait is how long to wait after the nth attempt of a generation, n counted from 1.
// random is in [0,1). Jitter is laid on top, also at the cap, so that deliveries that
// failed together do not come back together. The result is never negative, whatever
// goes in, and stays at the longest duration instead of overflowing.
func (b Backoff) Wait(n int, random float64) time.Duration {
	d := max(b.plain(max(n, 1)), 0)
	extra := float64(d) * fraction(b.Jitter) * fraction(random)
	if extra >= float64(forever-d) {
		return forever
	}
	return d + time.Duration(extra)
}

// plain is the wait without jitter.
func (b Backoff) plain(n int) time.Duration {
	switch b.Kind {
	case Fixed:
		return b.Delay
	case Schedule:
		if len(b.Schedule) == 0 {
			return 0
		}
		return b.Schedule[min(n, len(b.Schedule))-1]
	}
	limit := b.Cap
	if limit <= 0 {
		limit = forever
	}
	// Held against the limit before doubling: the doubled base could lose bits and come
	// out small. A shift by more than a duration has bits leaves 0, which any base exceeds.
	if b.Base > limit>>(n-1) {
		return limit
	}
	return b.Base << (n - 1)
}

// Horizon is the longest time that a generation can take from its first attempt to
// its death, pauses and open circuits aside: every lease used up, every wait the longest
// that backoff or a receiver's Retry-After can make it.
func (p Policy) Horizon() time.Duration {
	sum := time.Duration(0)
	add := func(d time.Duration) {
		if d > forever-sum {
			d = forever - sum
		}
		sum += max(d, 0)
	}
	add(p.Lease)
	for n := 1; n < p.MaxAttempts && sum < forever; n++ {
		add(max(p.Backoff.Wait(n, 1), p.RetryAfterMax))
		add(p.Lease)
	}
	return sum
}

// fraction forces f into 0 to 1; NaN becomes 0. An infinity let through would become
// NaN when it meets a zero, and a negative duration after that.
func fraction(f float64) float64 {
	if f > 0 {
		return min(f, 1)
	}
	return 0
}
