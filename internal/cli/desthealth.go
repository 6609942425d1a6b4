package cli

import (
	"strings"
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

// outlook is what this process knows of how a destination is sent to. A worker may have
// other variables and files than the shell of whoever asks.
type outlook struct {
	policy  policy.Policy // with the destination's own limits; zero: this configuration lacks it
	unready error         // why this process could not send to it; nil: it could
}

// outlook reads the configuration, and what the destination's references stand for.
func (e *endpoints) outlook(d work.Destination) outlook {
	var o outlook
	_, o.unready = e.endpoint(d)
	p, err := e.policyOf(d)
	if err != nil {
		return o
	}
	o.policy, err = p.For(d)
	if o.unready == nil {
		o.unready = err
	}
	return o
}

// why is why this process could not send, "" where it could.
func (o outlook) why() string {
	if o.unready == nil {
		return ""
	}
	return strings.ReplaceAll(o.unready.Error(), work.ErrConfig.Error()+": ", "")
}

// admission is what d's health allows at asOf, as a worker sees it.
func (o outlook) admission(d work.Destination, asOf time.Time) policy.Admission {
	p := o.policy
	if p.Name == "" {
		p = policy.Default() // its circuit, if not its numbers, is like any other's
	}
	return p.Admit(d.Health, asOf)
}

// heldText says in a word or two why nothing is sent, "" where something may be.
func heldText(d work.Destination, o outlook, asOf time.Time) string {
	state := policy.CircuitState(d.Health, asOf)
	switch {
	case !d.Health.Pause.At.IsZero():
		return "paused"
	case state != policy.CircuitClosed:
		return "circuit " + string(state)
	case d.Health.HeldUntil.After(asOf):
		return "retry after"
	case o.unready != nil:
		return "not ready here"
	case o.admission(d, asOf).Hold == work.HoldRate:
		return "rate"
	}
	return ""
}

// hold is one reason why what is due is not sent now.
type hold struct {
	Reason work.Hold       `json:"reason"`
	Until  *render.Instant `json:"until"` // null: nobody knows
	Why    string          `json:"why"`
}

// holds are what holds l's deliveries back, whoever would send them: at most one, as for a
// worker.
func (l loadedDestination) holds() []hold {
	all := []hold{}
	a := l.outlook.admission(l.Destination, l.asOf)
	most := l.outlook.policy.MaxInFlight
	switch {
	case a.Hold != "":
		all = append(all, hold{a.Hold, instantOrNull(a.Until), a.Why})
	case most > 0 && l.load.InFlight >= int64(most) && l.load.Due > 0:
		all = append(all, hold{Reason: work.HoldInFlight, Why: "as many are in flight as may be"})
	}
	return all
}

// holdsText is l's holds for people.
func (l loadedDestination) holdsText() string {
	var all []string
	for _, h := range l.holds() {
		text := string(h.Reason)
		if h.Until != nil {
			text += " until " + render.Time(time.Time(*h.Until))
		}
		all = append(all, text+" ("+h.Why+")")
	}
	if why := l.outlook.why(); why != "" {
		all = append(all, "not ready here ("+why+"; a worker may be)")
	}
	return strings.Join(all, "; ")
}

// orOfPolicy is a destination's own value, or its policy's, marked as such; "" where this
// configuration lacks the policy.
func (l loadedDestination) orOfPolicy(own, ofPolicy string) string {
	if own != "" || l.outlook.policy.Name == "" {
		return own
	}
	return ofPolicy + " (policy " + l.outlook.policy.Name + ")"
}
