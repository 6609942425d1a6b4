package cli

import (
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// pauseText is a pause for people.
func pauseText(p work.Pause) string {
	if p.At.IsZero() {
		return "no"
	}
	return "since " + render.Time(p.At) + " by " + p.By + ": " + p.Reason
}

// circuitText is a circuit for people.
func circuitText(h work.Health, asOf time.Time) string {
	state := policy.CircuitState(h, asOf)
	if state == policy.CircuitOpen {
		return string(state) + " until " + render.Time(h.OpenUntil)
	}
	return string(state)
}

// retryAfterText is until when the receiver wants nothing; "" where it did not say, or
// that is over.
func retryAfterText(h work.Health, asOf time.Time) string {
	if !h.HeldUntil.After(asOf) {
		return ""
	}
	return "until " + render.Time(h.HeldUntil)
}

// heldText says in a word or two why nothing is sent, "" where something may be.
func heldText(h work.Health, asOf time.Time) string {
	state := policy.CircuitState(h, asOf)
	switch {
	case !h.Pause.At.IsZero():
		return "paused"
	case state != policy.CircuitClosed:
		return "circuit " + string(state)
	case h.HeldUntil.After(asOf):
		return "retry after"
	}
	return ""
}
