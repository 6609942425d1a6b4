package pgstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

// tickets is the part of a claim about destinations of which only one worker may ask at
// a time, because of their rate or their circuit.
type tickets struct {
	lockedHealth
	asks []work.Ask // all of the claim, with the rooms that were admitted
}

// tickets locks the destinations of the asks with tickets, as far as nobody else holds
// them, and asks how much of each ask is admitted: of two asks of one destination the
// first is served first.
func (s *Store) tickets(ctx context.Context, tx *sqlx.Tx, r work.ClaimRequest) (tickets, error) {
	t := tickets{asks: r.Asks}
	wanted := map[int64]int{}
	var ids []int64
	for _, a := range r.Asks {
		if a.Ticket {
			wanted[a.DestinationID] += a.Room
			ids = append(ids, a.DestinationID)
		}
	}
	if len(ids) == 0 {
		return t, nil
	}
	var err error
	if t.lockedHealth, err = s.lockHealth(ctx, tx, lockFreeHealthSQL, ids); err != nil {
		return t, err
	}
	left := map[int64]int{}
	for _, h := range t.health {
		left[h.DestinationID] = min(r.Admit(t.asOf, h, wanted[h.DestinationID]), wanted[h.DestinationID])
	}
	t.asks = slices.Clone(r.Asks)
	for i := range t.asks {
		if a := &t.asks[i]; a.Ticket {
			a.Room = max(0, min(a.Room, left[a.DestinationID]))
			left[a.DestinationID] -= a.Room
		}
	}
	t.asks = slices.DeleteFunc(t.asks, func(a work.Ask) bool { return a.Room == 0 })
	return t, nil
}

// spend writes what was claimed into the health of the destinations with tickets. What
// is only closed or cancelled, and not sent, costs nothing. Nor is anything given back
// where the claim is, later, because its commit was not answered: a few slots are lost.
func (s *Store) spend(ctx context.Context, tx *sqlx.Tx, r work.ClaimRequest, t tickets, claimed []work.Claimed) ([]work.Health, error) {
	if len(t.health) == 0 {
		return nil, nil
	}
	taken := map[int64]int{}
	for i := range claimed {
		if c := &claimed[i]; !c.Lost && !c.Expired {
			taken[c.DestinationID]++
		}
	}
	before := slices.Clone(t.health)
	for i, h := range t.health {
		if n := taken[h.DestinationID]; n > 0 {
			t.health[i] = storedHealth(r.Spend(t.asOf, h, n))
		}
	}
	return t.health, s.saveHealth(ctx, tx, changedHealth(before, t.health))
}

// checkRooms refuses a claim that could take more than it has attempt ids for.
func checkRooms(r work.ClaimRequest) error {
	rooms := 0
	for _, a := range r.Asks {
		rooms += max(0, a.Room)
	}
	if rooms > len(r.AttemptIDs) || rooms > maxClaim {
		return fmt.Errorf("rooms add up to %d: want at most %d, and as many attempt ids", rooms, maxClaim)
	}
	return nil
}
