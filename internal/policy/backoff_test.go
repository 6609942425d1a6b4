package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/whctl/internal/policy"
)

func TestWait(t *testing.T) {
	exponential := policy.Backoff{Kind: policy.Exponential, Base: 30 * time.Second, Cap: 600 * time.Second}
	seconds := func(ss ...int) []time.Duration {
		var ds []time.Duration
		for _, s := range ss {
			ds = append(ds, time.Duration(s)*time.Second)
		}
		return ds
	}
	tests := []struct {
		name string
		b    policy.Backoff
		want []time.Duration // after attempts 1, 2, …
	}{
		{"exponential", exponential, seconds(30, 60, 120, 240, 480, 600, 600, 600)},
		{"exponential, cap no multiple of base", policy.Backoff{Kind: policy.Exponential, Base: 3, Cap: 10}, []time.Duration{3, 6, 10, 10}},
		{"exponential, cap reached at once", policy.Backoff{Kind: policy.Exponential, Base: 9, Cap: 5}, []time.Duration{5, 5}},
		{"exponential without a cap", policy.Backoff{Kind: policy.Exponential, Base: time.Second}, seconds(1, 2, 4)},
		{"exponential without a base", policy.Backoff{Kind: policy.Exponential, Cap: time.Second}, seconds(0, 0)},
		{"fixed", policy.Backoff{Kind: policy.Fixed, Delay: 5 * time.Minute}, seconds(300, 300, 300)},
		{"schedule, last entry repeats", policy.Backoff{Kind: policy.Schedule, Schedule: seconds(1, 10, 5)}, seconds(1, 10, 5, 5, 5)},
		{"empty schedule", policy.Backoff{Kind: policy.Schedule}, seconds(0, 0)},
		{"negative", policy.Backoff{Kind: policy.Fixed, Delay: -time.Second}, seconds(0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, want := range tt.want {
				if got := tt.b.Wait(i+1, 0); got != want {
					t.Errorf("after attempt %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}

	for n, want := range map[int]time.Duration{
		0: 30 * time.Second, -7: 30 * time.Second, math.MinInt: 30 * time.Second,
		63: 600 * time.Second, 64: 600 * time.Second, 65: 600 * time.Second, 1 << 40: 600 * time.Second, math.MaxInt: 600 * time.Second,
	} {
		if got := exponential.Wait(n, 0); got != want {
			t.Errorf("n = %d: %s, want %s", n, got, want)
		}
	}
}

func TestJitterIsLaidOnTopAlsoAtTheCap(t *testing.T) {
	b := policy.Backoff{Kind: policy.Exponential, Base: 30 * time.Second, Cap: 600 * time.Second, Jitter: 0.2}
	for _, n := range []int{1, 7, 500} {
		plain := b.Wait(n, 0)
		if got, want := b.Wait(n, 0.5), plain+plain/10; got != want {
			t.Errorf("n = %d: %s, want %s", n, got, want)
		}
		if b.Wait(n, 0.25) == b.Wait(n, 0.75) {
			t.Errorf("n = %d: jitter is missing", n)
		}
	}
	for _, random := range []float64{-1, math.Inf(-1), math.NaN()} {
		if got := b.Wait(1, random); got != 30*time.Second {
			t.Errorf("random %g: %s", random, got)
		}
	}
	b.Jitter = math.MaxFloat64
	if got := b.Wait(1, 0); got != 30*time.Second {
		t.Errorf("jitter out of bounds: %s", got)
	}
	b.Jitter = 0.2
	if got := b.Wait(1, math.Inf(1)); got != 36*time.Second {
		t.Errorf("random above its range: %s", got)
	}
}

func backoffs() *rapid.Generator[policy.Backoff] {
	duration := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "ns")) })
	return rapid.Custom(func(t *rapid.T) policy.Backoff {
		return policy.Backoff{
			Kind:     rapid.SampledFrom([]policy.BackoffKind{policy.Exponential, policy.Fixed, policy.Schedule, "other"}).Draw(t, "kind"),
			Base:     duration.Draw(t, "base"),
			Cap:      duration.Draw(t, "cap"),
			Delay:    duration.Draw(t, "delay"),
			Schedule: rapid.SliceOf(duration).Draw(t, "schedule"),
			Jitter:   rapid.Float64().Draw(t, "jitter"),
		}
	})
}

func TestWaitIsNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := backoffs().Draw(t, "backoff").Wait(rapid.Int().Draw(t, "n"), rapid.Float64().Draw(t, "random"))
		if got < 0 {
			t.Fatalf("wait of %s", got)
		}
	})
}

func TestExponentialWaitGrowsToItsCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, math.MaxInt64).Draw(t, "cap")
		b := policy.Backoff{Kind: policy.Exponential, Cap: time.Duration(limit), Base: time.Duration(rapid.Int64Range(1, limit).Draw(t, "base"))}
		n := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, math.MaxInt-1)).Draw(t, "n")
		this, next := b.Wait(n, 0), b.Wait(n+1, 0)
		if this < b.Base || next < this || next > b.Cap {
			t.Fatalf("%s, then %s, cap %s", this, next, b.Cap)
		}
		if next < b.Cap && next != 2*this {
			t.Fatalf("%s is not twice %s", next, this)
		}
	})
}

func TestJitterBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backoffs().Draw(t, "backoff")
		b.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		n, random := rapid.IntRange(1, math.MaxInt).Draw(t, "n"), rapid.Float64Range(0, 0.999999).Draw(t, "random")
		plain, got := b.Wait(n, 0), b.Wait(n, random)
		if got < plain {
			t.Fatalf("%s is less than %s", got, plain)
		}
		if float64(got) > float64(plain)*(1+b.Jitter)+1 {
			t.Fatalf("%s is more than %s and its jitter of %g", got, plain, b.Jitter)
		}
	})
}

func TestHorizon(t *testing.T) {
	p := policy.Default()
	// Seven waits of an hour (the receiver may ask for that), eight leases of a minute.
	if got, want := p.Horizon(), 7*time.Hour+8*time.Minute; got != want {
		t.Errorf("default: %s, want %s", got, want)
	}
	p.RetryAfterMax = 0
	// 1+2+4+…+64 seconds and a fifth of it on top.
	if got, want := p.Horizon(), 127*time.Second*12/10+8*time.Minute; got != want {
		t.Errorf("without Retry-After: %s, want %s", got, want)
	}
	p.Backoff = policy.Backoff{Kind: policy.Fixed, Delay: math.MaxInt64 / 2}
	if got := p.Horizon(); got != math.MaxInt64 {
		t.Errorf("overflow: %s", got)
	}
	p.MaxAttempts = 1
	if got := p.Horizon(); got != time.Minute {
		t.Errorf("one attempt: %s", got)
	}
}
