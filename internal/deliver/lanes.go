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
	// rescanAfter is how long marks are trusted: rows put in with a past due time and
	// leases that have run out lie before them.
	rescanAfter = 5 * time.Second
)

// lane is a destination with due work, as this run sees it.
type lane struct {
	destination work.Destination
	endpoint    Endpoint
	cap         int       // requests in flight at most
	busy        int       // places it holds
	mark        time.Time // the largest due time claimed since the last scan
	dry         bool      // a claim since the last scan found less than it asked for
	held        error     // why nothing is claimed for it in this run
	// Suspects, whose last attempt was lost, go one at a time: one that kills its worker
	// must not take others with it again and again.
	suspects    bool // there may be some
	suspectBusy bool // one is under way
}

func (la *lane) wants() bool {
	return la.held == nil && la.busy < la.cap && (!la.dry || la.wantsSuspect())
}

func (la *lane) wantsSuspect() bool { return la.suspects && !la.suspectBusy }

// lanes are all destinations met in a run.
type lanes struct {
	byID    map[int64]*lane
	order   []*lane // those with work by the last scan, the one that waited longest first
	next    int     // where the next claim begins, so that many lanes take turns
	scanned time.Time
	// moved: since the last scan something was claimed, given back or due again at
	// once, so that another scan may find what the marks now hide.
	moved bool
}

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

// asks shares free places among the lanes that have work: the emptiest first, so that
// each gets the same number of requests in flight as far as its cap and its work go.
func (l *lanes) asks(free int) []work.Ask {
	ready := make([]*lane, 0, min(len(l.order), maxAsks))
	for i := range l.order {
		la := l.order[(l.next+i)%len(l.order)]
		if la.wants() && len(ready) < maxAsks {
			ready = append(ready, la)
		}
	}
	rooms := share(free, ready)
	var asks []work.Ask
	for i, la := range ready {
		room := rooms[i]
		if room > 0 && la.wantsSuspect() {
			asks = append(asks, work.Ask{DestinationID: la.destination.ID, Room: 1, Lease: la.endpoint.Policy.Lease, Suspects: true})
			room--
		}
		if room > 0 && !la.dry {
			asks = append(asks, work.Ask{DestinationID: la.destination.ID, Mark: la.mark, Room: room, Lease: la.endpoint.Policy.Lease})
		}
	}
	if len(l.order) > 0 {
		l.next = (l.next + max(1, len(asks))) % len(l.order)
	}
	return asks
}

// share fills free places up to one level: no lane gets a further place while another
// one, below its cap, holds fewer. Ties go to the lanes in front.
func share(free int, ready []*lane) []int {
	rooms := make([]int, len(ready))
	need := func(level int) (sum int) {
		for _, la := range ready {
			sum += max(0, min(level, la.cap)-la.busy)
		}
		return sum
	}
	// The highest level that does not need more than what is free.
	lo, hi := 0, topCap(ready)
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
		rooms[i] = max(0, min(lo, la.cap)-la.busy)
		left -= rooms[i]
	}
	for i, la := range ready {
		if left == 0 {
			break
		}
		if la.busy <= lo && lo < la.cap {
			rooms[i]++
			left--
		}
	}
	return rooms
}

func topCap(ready []*lane) (top int) {
	for _, la := range ready {
		top = max(top, la.cap)
	}
	return top
}
