package testbed

import (
	"testing"
	"time"
)

const (
	// patience is how long anything here is waited for.
	patience = 30 * time.Second
	// farewell is left before the test's own deadline, to fail with a word.
	farewell = 2 * time.Second
)

// limit is how long t may wait for something from now.
func limit(t testing.TB) time.Duration {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			return max(min(patience, time.Until(end)-farewell), 0)
		}
	}
	return patience
}

// Await waits until done is closed or answers, and fails the test, naming what, when
// that takes too long.
func Await[T any](t testing.TB, what string, done <-chan T) T {
	t.Helper()
	timer := time.NewTimer(limit(t))
	defer timer.Stop()
	select {
	case v := <-done:
		return v
	case <-timer.C:
		t.Fatalf("waited too long for %s", what)
		panic("not reached")
	}
}
