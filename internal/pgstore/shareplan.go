package pgstore

import (
	"slices"

	"example.com/whctl/internal/work"
)

// sharedRoom is a share as it stands in the table.
type sharedRoom struct {
	DestinationID int64 `db:"destination_id"`
	Room          int   `db:"room"`
}

// sharePlan says which of an owner's shares are to be changed.
type sharePlan struct {
	unwanted     []int64
	lower, raise shareChanges
	rooms        map[int64]int // by destination: what it has, and after the changes what it got
	most         map[int64]int // by destination: what it is to come down to, or up to
}

// otherShares are those that others have of a destination.
type otherShares struct{ rivals, taken int }

// newSharePlan compares what an owner wants with its own shares and those of others.
func newSharePlan(wants []work.Want, own []sharedRoom, others map[int64]otherShares) *sharePlan {
	p := &sharePlan{rooms: make(map[int64]int, len(wants)), most: make(map[int64]int, len(wants))}
	for _, h := range own {
		p.rooms[h.DestinationID] = h.Room
	}
	wanted := make(map[int64]bool, len(wants))
	for _, w := range wants {
		wanted[w.DestinationID] = true
		room, has := p.rooms[w.DestinationID]
		o := others[w.DestinationID]
		equal := shareOf(w.Cap, o.rivals)
		// The others may have more than they should where the cap has been lowered.
		most := min(equal, max(0, w.Cap-o.taken))
		p.most[w.DestinationID] = most
		switch keep := max(most, w.Busy); {
		case room > keep:
			p.lower.add(w, keep, room)
			p.rooms[w.DestinationID] = keep
		case room < keep || !has:
			p.raise.add(w, max(equal, w.Busy), room)
			p.most[w.DestinationID] = equal
		}
	}
	for _, h := range own {
		if !wanted[h.DestinationID] {
			p.unwanted = append(p.unwanted, h.DestinationID)
		}
	}
	return p
}

// shareOf is an equal part of a cap, rounded up: whoever comes last gets what is left.
func shareOf(limit, rivals int) int { return max(1, (limit+rivals)/(rivals+1)) }

// shares is the answer to wants.
func (p *sharePlan) shares(wants []work.Want) []work.Share {
	shares := make([]work.Share, len(wants))
	for i, w := range wants {
		shares[i] = work.Share{DestinationID: w.DestinationID, Room: min(p.rooms[w.DestinationID], p.most[w.DestinationID])}
	}
	return shares
}

// shareChanges are shares to be changed, as columns.
type shareChanges struct{ ids, caps, targets, present []int64 }

func (c *shareChanges) add(w work.Want, target, present int) {
	c.ids, c.caps = append(c.ids, w.DestinationID), append(c.caps, int64(w.Cap))
	c.targets, c.present = append(c.targets, int64(target)), append(c.present, int64(present))
}

// only is c without what is not among the ids, which are sorted.
func (c shareChanges) only(ids []int64) shareChanges {
	var kept shareChanges
	for i, id := range c.ids {
		if _, found := slices.BinarySearch(ids, id); found {
			kept.ids, kept.caps = append(kept.ids, id), append(kept.caps, c.caps[i])
			kept.targets, kept.present = append(kept.targets, c.targets[i]), append(kept.present, c.present[i])
		}
	}
	return kept
}
