package deliver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// maxAsks bounds how many destinations one claim names.
	maxAsks = 500
	// maxDepth is how many deliveries a claim asks of each of many destinations: to find eight
	// at one costs less than to find one at each of eight, and to pass over what other workers
	// have leased there as well.
	maxDepth = 8
	// rescanAfter is how long marks are trusted: rows put in with a past due time and
	// leases that have run out lie before them.
	rescanAfter = 5 * time.Second
	// rescanShare is the part of the time that may go into looking and into claims without
	// a mark, one in so many: while an old snapshot is held they walk over all that ended.
	rescanShare = 10
)

// lane is a destination with due work, as this run sees it.
type lane struct {
	destination work.Destination
	to          *Endpoint // what it is now; those in flight keep the one that they began with
	health      work.Health
	told        standing  // what people have been told about it
	room        int       // requests in flight at most: this run's share of the cap of all workers
	asked       bool      // a share was asked for
	busy        int       // places it holds
	upTo        int       // places that it may hold after the claim that is being made
	waiting     int64     // due and not leased, at the last count
	left        int       // places that it might still hold, when that was measured last
	short       bool      // and it was these that would not do
	mark        time.Time // the largest due time claimed since the last scan
	dry         bool      // a claim since the last scan found less than it asked for
	held        error     // why nothing is claimed for it in this run
	retired     time.Time // when it came to be held
	shut        time.Time // until then another worker is asking about its ticket
	turned      int       // how often in a row that was so
	// Suspects, whose last attempt was lost, go one at a time: one that kills its worker
	// must not take others with it again and again.
	suspects    bool // there may be some
	suspectBusy bool // one is under way
}

// has says that there may be something to claim, if only it is allowed.
func (la *lane) has() bool { return la.held == nil && (!la.dry || la.wantsSuspect()) }

func (la *lane) wantsSuspect() bool { return la.suspects && !la.suspectBusy }

// limit is how many requests may be in flight.
func (la *lane) limit() int { return min(la.room, la.to.Policy.MaxInFlight) }

func (la *lane) ticket() bool { return la.to.Policy.NeedsTicket(la.health) }

// open says that something may be claimed at now, the database's clock, and how many
// places it may hold then.
func (la *lane) open(now time.Time) bool {
	free := la.limit() - la.busy
	if !la.has() || free <= 0 || la.shut.After(now) {
		return false
	}
	free = min(free, la.to.Policy.Admit(la.health, now).Room)
	la.upTo = la.busy + free
	return free > 0
}

// lanes are all destinations met in a run.
type lanes struct {
	byID    map[int64]*lane
	order   []*lane // those with work by the last scan, the one that waited longest first
	next    int     // where the next claim begins, so that many lanes take turns
	depth   int     // how many deliveries a lane is good for, as far as claims have found; 0 is maxDepth
	scanned time.Time
	cost    time.Duration // how long the last scan took
	unled   time.Duration // how long claims without a mark took since then
	// moved: since the last scan something was claimed, given back or due again at
	// once, so that another scan may find what the marks now hide.
	moved bool
}

// outdated says that it is time for another scan, whatever is known to have work.
func (l *lanes) outdated() bool {
	return time.Since(l.scanned) >= max(rescanAfter, rescanShare*l.price())
}

// price is what the last scan has cost: itself, and the claims that it left without marks.
func (l *lanes) price() time.Duration { return l.cost + l.unled }

// held says which destinations nothing is claimed for by a fault, and why; nil for none.
func (l *lanes) held() error {
	var all []error
	for _, la := range l.byID {
		if la.held != nil && !errors.Is(la.held, errShortLease) {
			all = append(all, fmt.Errorf("destination %q is held back: %w", la.destination.Name, la.held))
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

// asks shares free places among lanes that have work and may go on at now: the emptiest
// first, so that each gets the same number of requests in flight as far as its cap and its
// work go. The lanes take turns: a claim names as few as can fill the places.
func (l *lanes) asks(free int, now time.Time) []work.Ask {
	if l.depth == 0 {
		l.depth = maxDepth
	}
	most := min((free+l.depth-1)/l.depth, maxAsks)
	ready := make([]*lane, 0, min(len(l.order), maxAsks))
	room, passed := 0, 0
	for ; passed < len(l.order) && len(ready) < maxAsks && (len(ready) < most || room < free); passed++ {
		if la := l.order[(l.next+passed)%len(l.order)]; la.open(now) {
			ready = append(ready, la)
			room += min(la.upTo-la.busy, l.depth)
		}
	}
	rooms := share(free, ready)
	var asks []work.Ask
	for i, la := range ready {
		asks = la.ask(asks, rooms[i])
	}
	if len(l.order) > 0 {
		l.next = (l.next + passed) % len(l.order)
	}
	return asks
}

// found learns from a claim how many deliveries are to be asked of each lane.
func (l *lanes) found(asked, got int) {
	if got < asked/2 {
		l.depth = max(1, l.depth/2)
	} else {
		l.depth = min(maxDepth, l.depth*2)
	}
}

// ask adds what a lane asks for with room places. With a ticket it is one ask: its room
// is what the ticket is good for.
func (la *lane) ask(asks []work.Ask, room int) []work.Ask {
	a := work.Ask{DestinationID: la.destination.ID, Lease: la.to.Policy.Lease, Ticket: la.ticket()}
	if room > 0 && la.wantsSuspect() {
		a.Room, a.Suspects = 1, true
		asks = append(asks, a)
		room--
		if a.Ticket {
			return asks
		}
	}
	if room > 0 && !la.dry {
		a.Room, a.Suspects, a.Mark = room, false, la.mark
		asks = append(asks, a)
	}
	return asks
}

// share fills free places up to one level: no lane gets a further place while another
// one, that may hold more, holds fewer. Ties go to the lanes in front.
func share(free int, ready []*lane) []int {
	rooms := make([]int, len(ready))
	need := func(level int) (sum int) {
		for _, la := range ready {
			sum += max(0, min(level, la.upTo)-la.busy)
		}
		return sum
	}
	// The highest level that does not need more than what is free.
	lo, hi := 0, top(ready)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if need(mid) <= free {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	left := free
	for i, la := range ready {
		rooms[i] = max(0, min(lo, la.upTo)-la.busy)
		left -= rooms[i]
	}
	for i, la := range ready {
		if left == 0 {
			break
		}
		if la.busy <= lo && lo < la.upTo {
			rooms[i]++
			left--
		}
	}
	return rooms
}

func top(ready []*lane) (top int) {
	for _, la := range ready {
		top = max(top, la.upTo)
	}
	return top
}
