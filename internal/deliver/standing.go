package deliver

import (
	"context"
	"log/slog"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// standing is what holds a destination back for longer than a moment. Rate and places are
// left out: they come and go with each claim.
type standing struct {
	paused   bool
	openings int  // how often in a row its circuit has opened; 0: it is closed
	resting  bool // the receiver asked for a pause
}

func (la *lane) standing(now time.Time) standing {
	s := standing{paused: !la.health.Pause.At.IsZero(), resting: la.health.HeldUntil.After(now)}
	if la.to.Policy.Circuit.Failures > 0 {
		s.openings = la.health.Openings
	}
	return s
}

// meet takes in what is known of a destination that the run has not met before. What holds
// it back from before the run is no news.
func (r *run) meet(la *lane, h work.Health) {
	la.health = h
	la.told = la.standing(r.clock.now())
	if began := r.tally.sum.StartedAt; !began.IsZero() && h.Pause.At.After(began) {
		la.told.paused = false
	}
}

// see takes in a destination's health, and says what has changed for people: each change
// once, whoever made it. A circuit that opens, and a pause that no person made, are for
// somebody to look into; the rest goes as it should.
func (r *run) see(la *lane, h work.Health) {
	la.health = h
	before, after := la.told, la.standing(r.clock.now())
	if after == before {
		return
	}
	la.told = after
	if after.paused != before.paused {
		level := slog.LevelInfo
		if h.Pause.By == policy.PausedBy {
			level = slog.LevelWarn
		}
		r.sayHold(la, level, said(after.paused), work.HoldPaused, work.Health{Pause: h.Pause})
	}
	if after.resting != before.resting {
		r.sayHold(la, slog.LevelInfo, said(after.resting), work.HoldRetryAfter, work.Health{HeldUntil: h.HeldUntil})
	}
	circuit := work.Health{Failures: h.Failures, Openings: h.Openings, OpenUntil: h.OpenUntil}
	switch {
	case after.openings == before.openings:
	case after.openings > before.openings && before.openings > 0: // its probe failed
		r.sayHold(la, slog.LevelInfo, "destination still held back", work.HoldCircuit, circuit)
	case after.openings > 0:
		r.sayHold(la, slog.LevelWarn, said(true), work.HoldCircuit, circuit)
	default:
		r.sayHold(la, slog.LevelInfo, said(false), work.HoldCircuit, circuit)
	}
}

func said(held bool) string {
	if held {
		return "destination held back"
	}
	return "destination no longer held back"
}

// sayHold says what about one hold, of which h is the part of the destination's health.
func (r *run) sayHold(la *lane, level slog.Level, what string, hold work.Hold, h work.Health) {
	attrs := []any{"destination", la.destination.Name, "hold", string(hold)}
	if a := la.to.Policy.Admit(h, r.clock.now()); a.Hold == hold {
		if !a.Until.IsZero() {
			attrs = append(attrs, "until", a.Until)
		}
		attrs = append(attrs, "why", a.Why)
	}
	r.o.Log.Log(context.Background(), level, what, attrs...)
}
