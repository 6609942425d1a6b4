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
}

// newSharePlan compares what an owner wants with its own shares and the number of others
// that share each destination.
func newSharePlan(wants []work.Want, own []sharedRoom, rivals map[int64]int) *sharePlan {
	p := &sharePlan{rooms: make(map[int64]int, len(wants))}
	for _, h := range own {
		p.rooms[h.DestinationID] = h.Room
	}
	wanted := make(map[int64]bool, len(wants))
	for _, w := range wants {
		wanted[w.DestinationID] = true
		room, has := p.rooms[w.DestinationID]
		switch target := shareOf(w, rivals[w.DestinationID]); {
		case room > target:
			p.lower.add(w, target, room)
			p.rooms[w.DestinationID] = target
		case room < target || !has:
			p.raise.add(w, target, room)
		}
	}
	for _, h := range own {
		if !wanted[h.DestinationID] {
			p.unwanted = append(p.unwanted, h.DestinationID)
		}
	}
	return p
}

// shareOf is an equal part of the cap, rounded up: whoever comes last gets what is left.
// What a worker has in flight it cannot give up.
func shareOf(w work.Want, rivals int) int {
	return max(1, (w.Cap+rivals)/(rivals+1), w.Busy)
}

// shares is the answer to wants.
func (p *sharePlan) shares(wants []work.Want) []work.Share {
	shares := make([]work.Share, len(wants))
	for i, w := range wants {
		shares[i] = work.Share{DestinationID: w.DestinationID, Room: p.rooms[w.DestinationID]}
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
