package work

import "fmt"

// State is the state of a delivery as people see it. The table keeps one number
// for Scheduled and Leased (a lease sits in no indexed column, so that taking one
// writes no index); the view whctl.delivery_status tells them apart.
type State string

// The states a delivery can be in.
const (
	Scheduled State = "scheduled" // waiting for its due time
	Leased    State = "leased"    // an attempt is open, whether its lease has expired or not
	Delivered State = "delivered" // terminal: a 2xx answer was received
	Dead      State = "dead"      // waiting for a person, evidence kept
	Cancelled State = "cancelled" // terminal: not wanted any more
	Discarded State = "discarded" // terminal: a person decided that it will never be delivered
)

// States lists every state in the order of a delivery's life.
func States() []State {
	return []State{Scheduled, Leased, Delivered, Dead, Cancelled, Discarded}
}

// Reason says why a delivery is dead or cancelled.
type Reason string

// The reasons of model.md; an operator's act has its own text in the audit log.
const (
	NoReason        Reason = ""
	ReasonPermanent Reason = "permanent" // the answer is one that time does not mend
	ReasonExhausted Reason = "exhausted" // the attempt budget of the generation is spent
	ReasonLost      Reason = "lost"      // the budget is spent and the last attempt's effect is unknown
	ReasonBlocked   Reason = "blocked"   // the egress guard refuses the address
	ReasonInvalid   Reason = "invalid"   // URL, header or key cannot be used
	ReasonNotAfter  Reason = "not_after" // the business deadline passed before it could be sent
	ReasonGuard     Reason = "guard"     // the configured guard said that it is no longer wanted
	ReasonCancelled Reason = "cancelled" // the producer or an operator cancelled it
	ReasonDiscarded Reason = "discarded" // an operator discarded it
)

// reasons is ordered: the place of a reason is its number in the tables.
var reasons = [...]Reason{
	NoReason, ReasonPermanent, ReasonExhausted, ReasonLost, ReasonBlocked, ReasonInvalid,
	ReasonNotAfter, ReasonGuard, ReasonCancelled, ReasonDiscarded,
}

// Code is the number under which the tables keep r.
func (r Reason) Code() int16 {
	for i, x := range reasons {
		if x == r {
			return int16(i)
		}
	}
	panic(fmt.Sprintf("work: unknown reason %q", string(r)))
}

// ReasonOf is the reason kept under code; an unknown code has none.
func ReasonOf(code int16) Reason {
	if code < 0 || int(code) >= len(reasons) {
		return NoReason
	}
	return reasons[code]
}
