package deliver

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

func TestShare(t *testing.T) {
	cases := []struct {
		name  string
		free  int
		lanes [][2]int // busy, cap
		want  []int
	}{
		{"two empty lanes get the same", 8, [][2]int{{0, 16}, {0, 16}}, []int{4, 4}},
		{"an odd place goes to the front", 5, [][2]int{{0, 16}, {0, 16}}, []int{3, 2}},
		{"the emptier lane catches up first", 4, [][2]int{{4, 16}, {0, 16}}, []int{0, 4}},
		{"a cap leaves room for others", 10, [][2]int{{0, 2}, {0, 16}}, []int{2, 8}},
		{"nobody exceeds its cap", 100, [][2]int{{0, 2}, {1, 3}}, []int{2, 2}},
		{"more lanes than places", 2, [][2]int{{0, 4}, {0, 4}, {0, 4}}, []int{1, 1, 0}},
		{"no lanes", 5, nil, []int{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := share(c.free, ready(c.lanes))
			for i := range c.want {
				if got[i] != c.want[i] {
					t.Fatalf("rooms %v, want %v", got, c.want)
				}
			}
		})
	}
}

func ready(lanes [][2]int) []*lane {
	var out []*lane
	for _, l := range lanes {
		out = append(out, &lane{busy: l[0], upTo: l[1]})
	}
	return out
}

// Whatever the lanes: caps hold, no more is given than is free, nothing is left over
// while a lane has room, and no lane gets ahead of one that could still take more.
func TestShareIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.IntRange(0, 300).Draw(t, "free")
		var lanes [][2]int
		for range rapid.IntRange(0, 40).Draw(t, "lanes") {
			limit := rapid.IntRange(1, 50).Draw(t, "cap")
			lanes = append(lanes, [2]int{rapid.IntRange(0, limit).Draw(t, "busy"), limit})
		}
		rooms := share(free, ready(lanes))
		given, possible := 0, 0
		for i, l := range lanes {
			given += rooms[i]
			possible += l[1] - l[0]
			if rooms[i] < 0 || l[0]+rooms[i] > l[1] {
				t.Fatalf("lane %d: busy %d + room %d over cap %d", i, l[0], rooms[i], l[1])
			}
		}
		if given != min(free, possible) {
			t.Fatalf("gave %d of %d free, %d possible", given, free, possible)
		}
		for i, a := range lanes {
			for j, b := range lanes {
				if rooms[i] > 0 && b[0]+rooms[j] < b[1] && a[0]+rooms[i] > b[0]+rooms[j]+1 {
					t.Fatalf("lane %d got to %d while lane %d, with room, has %d", i, a[0]+rooms[i], j, b[0]+rooms[j])
				}
			}
		}
	})
}

// lanesWithRoom are n lanes that may each have room deliveries more in flight.
func lanesWithRoom(n, room int) *lanes {
	l := &lanes{}
	for i := range n {
		l.order = append(l.order, &lane{destination: work.Destination{ID: int64(i)}, to: &Endpoint{Policy: policy.Default()}, room: room})
	}
	return l
}

// More lanes than a claim names take turns.
func TestLanesTakeTurns(t *testing.T) {
	l := lanesWithRoom(10, 5)
	asked := map[int64]bool{}
	for range 5 {
		for _, a := range l.asks(10, time.Time{}) {
			asked[a.DestinationID] = true
		}
	}
	if len(asked) != 10 {
		t.Errorf("%d of 10 lanes were asked in five claims, each for two lanes at least", len(asked))
	}
}

// As few lanes as can fill the places; more of them where that has found little.
func TestLanesOfAClaim(t *testing.T) {
	l := lanesWithRoom(100, policy.Default().MaxInFlight)
	free := 4 * maxDepth
	count := func() (n, rooms int) {
		for _, a := range l.asks(free, time.Time{}) {
			n, rooms = n+1, rooms+a.Room
		}
		return n, rooms
	}
	wants := func(lanes int) {
		t.Helper()
		if n, rooms := count(); n != lanes || rooms != free {
			t.Errorf("%d lanes with room for %d, want %d for %d", n, rooms, lanes, free)
		}
	}
	wants(4)
	l.found(free, free/2)
	wants(4)
	l.found(free, free/2-1)
	wants(8)
	for range 5 {
		l.found(free, 1)
	}
	wants(free)
	l.found(free, free)
	wants(free / 2)

	for _, la := range l.order {
		la.room = 1 // a cap, or a share of one
	}
	l.depth = maxDepth
	wants(free)
}

// Beside other workers a run does not begin where they do; alone, with the lane that has
// waited longest.
func TestWhereLanesBegin(t *testing.T) {
	for _, c := range []struct {
		rivals bool
		random float64
		want   int
	}{{false, 0.5, 0}, {true, 0, 0}, {true, 0.5, 2}, {true, 0.99, 3}} {
		o := options(8, ok)
		o.Random = func() float64 { return c.random }
		r := &run{store: newTable(slices.Concat(due(1, 1), due(2, 1), due(3, 1), due(4, 1))...), o: o}
		r.lanes.byID = make(map[int64]*lane)
		r.shares.rivals = c.rivals
		if err := r.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.lanes.next != c.want {
			t.Errorf("%+v: begins with lane %d", c, r.lanes.next)
		}
	}
}

// The dearer it is to look and to claim from the beginning, the more seldom that is done.
func TestScansAreFewWhereTheyAreDear(t *testing.T) {
	for _, c := range []struct {
		cost, unled, since time.Duration
		want               bool
	}{
		{0, 0, 4 * time.Second, false},
		{0, 0, 5 * time.Second, true},
		{time.Second, 0, 9 * time.Second, false},
		{time.Second, time.Second, 19 * time.Second, false},
		{time.Second, time.Second, 20 * time.Second, true},
	} {
		l := lanes{cost: c.cost, unled: c.unled, scanned: time.Now().Add(-c.since)}
		if got := l.outdated(); got != c.want {
			t.Errorf("%+v: outdated %t", c, got)
		}
	}
}
