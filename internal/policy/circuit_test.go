package policy_test

import (
	"testing"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

func TestCircuitState(t *testing.T) {
	asOf := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what string
		h    work.Health
		want policy.CircuitStatus
	}{
		{"nothing known", work.Health{}, policy.CircuitClosed},
		{"failures that did not open it", work.Health{Failures: 19}, policy.CircuitClosed},
		{"open", work.Health{Openings: 1, OpenUntil: asOf.Add(time.Microsecond)}, policy.CircuitOpen},
		{"its time is up", work.Health{Openings: 1, OpenUntil: asOf}, policy.CircuitHalfOpen},
		{"a probe is under way", work.Health{Openings: 3, OpenUntil: asOf.Add(-time.Second), ProbeUntil: asOf.Add(time.Minute)}, policy.CircuitHalfOpen},
	} {
		if got := policy.CircuitState(c.h, asOf); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
