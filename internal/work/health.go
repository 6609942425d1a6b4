package work

import "time"

// Hold says why a due delivery is not claimed now.
type Hold string

// The reasons for holding back.
const (
	HoldPaused     Hold = "paused"       // by a person, or because the receiver refuses the credentials
	HoldCircuit    Hold = "circuit_open" // too many failures in a row
	HoldRate       Hold = "rate"         // the destination's deliveries per time are used up
	HoldInFlight   Hold = "in_flight"    // its requests in flight are
	HoldRetryAfter Hold = "retry_after"  // the receiver asked for a pause
	HoldNotReady   Hold = "not_ready"    // the worker lacks its policy, key or a header's value, or its guard fails
)

// Holds lists the reasons for holding back, in the order of a summary.
func Holds() []Hold {
	return []Hold{HoldPaused, HoldCircuit, HoldRate, HoldInFlight, HoldRetryAfter, HoldNotReady}
}

// Health is what all workers together know about a destination. Times are the
// database's; zero stands for none.
type Health struct {
	DestinationID int64
	Failures      int       // retryable failures in a row
	Refusals      int       // 401 and 403 in a row
	RefusedSince  time.Time // when the first of them became known
	DeliveredAt   time.Time // the latest delivery since then, by any worker; only where it is judged
	Openings      int       // how often in a row the circuit has opened; 0: it is closed
	OpenUntil     time.Time // of an open circuit: when one probe may go
	ProbeUntil    time.Time // a probe is under way, until then at the latest
	HeldUntil     time.Time // the receiver asked for nothing before (Retry-After)
	NextSlot      time.Time // when the next delivery may begin, by the rate
	Pause         Pause
}

// Pause is a destination's being paused; the zero value stands for not.
type Pause struct {
	At     time.Time
	By     string // the operator; "whctl" where it was a worker
	Reason string
}

// Clean says that another success would change nothing about h.
func (h Health) Clean() bool {
	return h.Failures == 0 && h.Refusals == 0 && h.Openings == 0 && h.ProbeUntil.IsZero()
}

// Trial is what attempts of one destination ended as, for its health.
type Trial struct {
	DestinationID int64
	Outcomes      []Outcome // in the order in which they became known
	Probe         bool      // the first of them was the probe of a half-open circuit
}

// Survey is who has something due.
type Survey struct {
	AsOf    time.Time // the database's clock
	NextDue time.Time // when something else becomes due; zero: nothing is known to
	Due     []Destination
}

// Want is what a worker asks of a destination's requests in flight, of which it shares
// the cap with all other workers.
type Want struct {
	DestinationID int64
	Cap           int // of all workers together
	Busy          int // what this worker has in flight
}

// Share is how many requests in flight a worker may have at a destination.
type Share struct {
	DestinationID int64
	Room          int
}
