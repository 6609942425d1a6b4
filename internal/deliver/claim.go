package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

// keepUp does what is due by the clock: telling the others that this run is there,
// looking who has work, and counting it.
func (r *run) keepUp(ctx context.Context) error {
	if r.shares.entered && r.shares.beatIn() <= 0 {
		if err := r.beat(ctx, r.shares.waiting && r.busy == 0); err != nil {
			return err
		}
	}
	if r.lanes.outdated() {
		if err := r.scan(ctx); err != nil {
			return err
		}
	}
	r.observeBacklog(ctx)
	return nil
}

// claim asks the lanes that have work; where none is known to, it looks who has. False
// means that nothing is due that this run could take now.
func (r *run) claim(ctx context.Context, free int) (bool, error) {
	if err := r.keepUp(ctx); err != nil {
		return false, err
	}
	asks, err := r.asks(ctx, free)
	if err == nil && len(asks) == 0 && r.stale() {
		if err = r.scan(ctx); err == nil {
			asks, err = r.asks(ctx, free)
		}
	}
	if err != nil || len(asks) == 0 {
		return false, err
	}
	err = r.take(ctx, asks)
	if errors.Is(err, work.ErrNoWorker) {
		r.takenOut()
		return true, nil
	}
	return true, err
}

// asks makes sure of the shares of the lanes with work before it asks for them.
func (r *run) asks(ctx context.Context, free int) ([]work.Ask, error) {
	for r.unasked() { // twice for a run that was taken out meanwhile
		var err error
		if r.shares.entered {
			err = r.reshare(ctx)
		} else {
			err = r.beat(ctx, false)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.lanes.asks(free, r.clock.now()), nil
}

// take claims and sends.
func (r *run) take(ctx context.Context, asks []work.Ask) error {
	admitted := make(map[int64]int)
	request := work.ClaimRequest{
		Owner: r.o.Owner, Asks: asks, InlineMax: r.senders.inlineMax,
		Admit: func(asOf time.Time, h work.Health, room int) int {
			n := min(room, r.lanes.byID[h.DestinationID].to.Policy.Admit(h, asOf).Room)
			admitted[h.DestinationID] = n
			return n
		},
		Spend: func(asOf time.Time, h work.Health, taken int) work.Health {
			return r.lanes.byID[h.DestinationID].to.Policy.Spend(h, asOf, taken)
		},
	}
	for _, a := range asks {
		for range a.Room {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make an attempt id: %w", err)
			}
			request.AttemptIDs = append(request.AttemptIDs, id)
		}
	}
	sent := time.Now() // the lease is counted from before the claim was sent
	result, err := r.store.Claim(ctx, request)
	if err != nil {
		return err
	}
	r.answered()
	if slices.ContainsFunc(asks, func(a work.Ask) bool { return a.Mark.IsZero() && !a.Suspects }) {
		r.lanes.unled += time.Since(sent)
	}
	r.lanes.found(len(request.AttemptIDs), len(result.Claimed))
	r.noteClaim(asks, admitted, result)
	r.o.observed().Claimed(len(result.Claimed))
	r.recorder.flying.Add(int64(len(result.Claimed)))
	for _, c := range result.Claimed {
		la := r.lanes.byID[c.DestinationID]
		la.busy++
		r.busy++
		r.tally.claimed(c)
		clean := la.health.Clean()
		probe := la.health.Openings > 0 && !c.Lost && !c.Expired // what is not sent tries nothing out
		r.senders.start(job{claimed: c, to: la.to, begun: sent, clean: clean, probe: probe})
	}
	return nil
}

// noteClaim moves the marks on and notes which lanes had less than was asked for.
func (r *run) noteClaim(asks []work.Ask, admitted map[int64]int, result work.ClaimResult) {
	if len(result.Claimed) > 0 {
		r.lanes.moved, r.claimed = true, time.Now()
	}
	type kind struct {
		destination int64
		suspects    bool
	}
	got := make(map[kind]int, len(asks))
	for _, c := range result.Claimed {
		got[kind{c.DestinationID, c.Suspect}]++
		if la := r.lanes.byID[c.DestinationID]; c.Due.After(la.mark) && !c.Suspect {
			la.mark = c.Due
		}
	}
	for _, h := range result.Health {
		r.see(r.lanes.byID[h.DestinationID], h)
	}
	for _, a := range asks {
		la, n := r.lanes.byID[a.DestinationID], got[kind{a.DestinationID, a.Suspects}]
		r.see(la, la.health) // a hold that ran out by the clock
		room := a.Room
		if a.Ticket {
			if room = admitted[a.DestinationID]; room == 0 {
				r.turnedAway(la, result)
				continue
			}
			la.turned = 0
		}
		if a.Suspects {
			la.suspects, la.suspectBusy = n == room, n == room
		} else {
			la.dry = n < room
		}
	}
}

// turnedAway notes that a ticket was good for nothing. Where the destination's health
// says why, the lane waits for as long as that says; else another worker was asking.
func (r *run) turnedAway(la *lane, result work.ClaimResult) {
	if slices.ContainsFunc(result.Health, func(h work.Health) bool { return h.DestinationID == la.destination.ID }) {
		la.turned = 0
		return
	}
	wait := min(shutFor<<la.turned, shutMax)
	la.turned = min(la.turned+1, 10)
	la.shut = r.clock.now().Add(wait + time.Duration(r.o.Random()*float64(wait)))
}

const (
	// shutFor is how long a run waits at least for another that asks about the same
	// ticket; twice as long each time, up to shutMax, for one that may stand still.
	shutFor = 3 * time.Millisecond
	shutMax = 100 * time.Millisecond
)

// scan looks who has work, and forgets the marks.
func (r *run) scan(ctx context.Context) error {
	began, before := time.Now(), len(r.lanes.byID)
	survey, err := r.store.Survey(ctx)
	if err != nil {
		return err
	}
	r.clock.set(survey.AsOf)
	r.nextDue = survey.NextDue
	r.lanes.order = r.lanes.order[:0]
	for _, d := range survey.Due {
		if len(r.o.Destinations) > 0 && !slices.Contains(r.o.Destinations, d.Name) {
			continue
		}
		la, met := r.lanes.byID[d.ID], true
		if la == nil {
			la, met = &lane{}, false
			r.lanes.byID[d.ID] = la
		}
		r.refresh(la, d)
		if !met {
			r.meet(la, d.Health)
		}
		r.see(la, d.Health)
		la.mark, la.dry, la.suspects = time.Time{}, false, d.Suspects
		r.lanes.order = append(r.lanes.order, la)
	}
	r.lanes.next, r.lanes.moved = 0, false
	if n := len(r.lanes.order); n > 0 && r.shares.rivals {
		r.lanes.next = min(int(r.o.Random()*float64(n)), n-1) // not where the others begin
	}
	r.lanes.scanned, r.lanes.cost, r.lanes.unled = time.Now(), time.Since(began), 0
	if n := len(r.lanes.byID); n > before && r.o.Grow != nil {
		r.o.Grow(n)
	}
	r.answered()
	r.tellHeld()
	return nil
}
