package policy

import (
	"time"

	"example.com/whctl/internal/work"
)

// CircuitStatus is the state of a destination's circuit, in a word.
type CircuitStatus string

// The states of a circuit.
const (
	CircuitClosed   CircuitStatus = "closed"
	CircuitOpen     CircuitStatus = "open"      // nothing is sent
	CircuitHalfOpen CircuitStatus = "half_open" // one probe may go, or is under way
)

// CircuitState is the state of h's circuit at asOf.
func CircuitState(h work.Health, asOf time.Time) CircuitStatus {
	switch {
	case h.Openings == 0:
		return CircuitClosed
	case asOf.Before(h.OpenUntil):
		return CircuitOpen
	}
	return CircuitHalfOpen
}
