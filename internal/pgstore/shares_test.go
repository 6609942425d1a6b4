package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// sharing is workers that share the destinations of a database.
type sharing struct {
	*testing.T
	d   *testbed.Database
	ids []int64
}

func newSharing(t *testing.T, destinations int) *sharing {
	d := testbed.DB(t)
	s := &sharing{T: t, d: d}
	for i := range destinations {
		name := fmt.Sprint("d", i)
		d.Destination(t, name, "https://r.example/")
		s.ids = append(s.ids, testbed.QueryInt(t, d, `SELECT id FROM whctl.destinations WHERE name = $1`, name))
	}
	return s
}

// shares asks for a destination and answers with the room.
func (s *sharing) share(w *worker, limit, busy int) int {
	s.Helper()
	got, err := w.store.Shares(s.Context(), w.owner, []work.Want{{DestinationID: s.ids[0], Cap: limit, Busy: busy}})
	if err != nil {
		s.Fatal(err)
	}
	if len(got) != 1 || got[0].DestinationID != s.ids[0] {
		s.Fatalf("shares %+v", got)
	}
	return got[0].Room
}

// kept is the room that stands for a worker in the table.
func (s *sharing) kept(w *worker) int {
	s.Helper()
	return int(testbed.QueryInt(s.T, s.d, `SELECT room FROM whctl.shares WHERE owner = $1 AND destination_id = $2`, w.owner, s.ids[0]))
}

func (s *sharing) worker(label string) *worker {
	w := newWorker(s.T, s.d, label)
	w.beat()
	return w
}

func (s *sharing) want(what string, got, want int) {
	s.Helper()
	if got != want {
		s.Errorf("%s: room %d, want %d", what, got, want)
	}
}

func TestSharesOfOneDestination(t *testing.T) {
	s := newSharing(t, 1)
	a, b, c := s.worker("a"), s.worker("b"), s.worker("c")
	s.want("alone", s.share(a, 9, 0), 9)
	s.want("again", s.share(a, 9, 9), 9)
	s.want("b comes, nothing is free", s.share(b, 9, 0), 0)
	s.want("a comes down to its half", s.share(a, 9, 7), 5)
	s.want("a keeps what is in flight", s.kept(a), 7)
	s.want("b gets the rest", s.share(b, 9, 0), 2)
	s.want("a is down to its half", s.share(a, 9, 3), 5)
	s.want("a has its half", s.kept(a), 5)
	s.want("b gets more", s.share(b, 9, 2), 4)
	s.want("c comes", s.share(c, 9, 0), 0)
	s.want("a has a third", s.share(a, 9, 1), 3)
	s.want("b has a third", s.share(b, 9, 1), 3)
	s.want("c has a third", s.share(c, 9, 0), 3)
	if _, err := a.store.Shares(t.Context(), a.owner, nil); err != nil {
		t.Fatal(err)
	}
	s.want("b without a", s.share(b, 9, 0), 5)
	s.want("c without a", s.share(c, 9, 0), 4)
	s.want("c when the cap is lowered, b has it all", s.share(c, 2, 0), 0)
	s.want("b when the cap is lowered", s.share(b, 2, 0), 1)
	s.want("a gets what is left of 2", s.share(a, 2, 0), 1)
	s.want("c, too late", s.share(c, 2, 0), 0)
}

// A cap that is lowered below the number of workers, or to where equal parts rounded up
// are too much, is kept once what is in flight has ended; and it is used up.
func TestSharesWhenACapIsLoweredUnderAll(t *testing.T) {
	for _, limit := range []int{1, 2, 4, 5} {
		s := newSharing(t, 1)
		workers := []*worker{s.worker("a"), s.worker("b"), s.worker("c")}
		for range 3 {
			for _, w := range workers {
				s.share(w, 9, 0)
			}
		}
		s.want("before", int(testbed.QueryInt(t, s.d, `SELECT sum(room) FROM whctl.shares`)), 9)
		for _, w := range workers {
			s.share(w, limit, 3)
		}
		s.want("what is in flight", int(testbed.QueryInt(t, s.d, `SELECT sum(room) FROM whctl.shares`)), 9)
		for range 2 {
			for _, w := range workers {
				s.share(w, limit, 0)
			}
		}
		s.want(fmt.Sprint("lowered to ", limit), int(testbed.QueryInt(t, s.d, `SELECT sum(room) FROM whctl.shares`)), limit)
	}
}

// What is in flight at a worker that is gone counts until its leases end; a worker that
// was taken out and comes back has it instead of the remains.
func TestSharesBesideRemains(t *testing.T) {
	s := newSharing(t, 1)
	testbed.Exec(t, s.d, `SELECT whctl.enqueue('d0', 't', 's' || n, '{}') FROM generate_series(1, 5) n`)
	a, b := s.worker("a"), s.worker("b")
	s.want("alone", s.share(a, 8, 0), 8)
	a.claim(5)
	silence(t, s.d, a.owner)
	b.beat()
	s.want("beside the remains", s.share(b, 8, 0), 3)
	a.beat()
	s.want("who comes back", s.share(a, 8, 5), 4)
	s.want("who comes back has in flight", s.kept(a), 5)
	if n := testbed.QueryInt(t, s.d, `SELECT count(*) FROM whctl.shares WHERE expires_at IS NOT NULL`); n != 0 {
		t.Errorf("%d remains are left", n)
	}
	silence(t, s.d, a.owner)
	b.beat()
	testbed.Exec(t, s.d, `UPDATE whctl.shares SET expires_at = now() - interval '1 second' WHERE expires_at IS NOT NULL`)
	s.want("when the leases have ended", s.share(b, 8, 0), 8)
}

func TestSharesOfADestinationThatAnotherHolds(t *testing.T) {
	s := newSharing(t, 2)
	a := s.worker("a")
	tx, err := s.d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM whctl.destination_health WHERE destination_id = $1 FOR NO KEY UPDATE`, s.ids[0]); err != nil {
		t.Fatal(err)
	}
	got, err := a.store.Shares(t.Context(), a.owner, []work.Want{{DestinationID: s.ids[1], Cap: 4}, {DestinationID: s.ids[0], Cap: 4}})
	if err != nil || len(got) != 2 || got[0].Room != 4 || got[1].Room != 0 {
		t.Errorf("shares %+v, %v; want 4 of the free one and none of the other", got, err)
	}
	if n := testbed.QueryInt(t, s.d, `SELECT count(*) FROM whctl.shares`); n != 1 {
		t.Errorf("%d shares", n)
	}
}

// Twenty workers ask at once, come and go and are taken out: after each commit the rooms
// of no destination add up to more than its cap.
func TestSharesNeverAddUpToMoreThanTheCap(t *testing.T) {
	s := newSharing(t, 3)
	const limit, rounds = 7, 25
	full := 0
	var mu sync.Mutex
	sum := func() {
		var sums []int
		err := s.d.Admin.SelectContext(t.Context(), &sums, `
SELECT sum(h.room) FROM whctl.shares h WHERE h.expires_at IS NULL OR h.expires_at > now() GROUP BY h.destination_id`)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, n := range sums {
			if n > limit {
				t.Errorf("rooms add up to %d, cap %d", n, limit)
			}
			if n == limit {
				full++
			}
		}
	}
	var wg sync.WaitGroup
	for i := range 20 {
		w := newWorkerOn(t, s.d, i)
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			rooms := map[int64]int{}
			for range rounds {
				if _, known, err := w.store.Beat(t.Context(), w.owner, false); err != nil {
					t.Error(err)
				} else if !known {
					clear(rooms)
				}
				var wants []work.Want
				for _, id := range s.ids {
					if r.IntN(4) > 0 {
						wants = append(wants, work.Want{DestinationID: id, Cap: limit, Busy: r.IntN(rooms[id] + 1)})
					}
				}
				got, err := w.store.Shares(t.Context(), w.owner, wants)
				if err != nil {
					t.Error(err)
					return
				}
				clear(rooms)
				for _, g := range got {
					rooms[g.DestinationID] = g.Room
				}
				sum()
				if r.IntN(8) == 0 {
					if err := w.store.Leave(t.Context(), w.owner, false); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if full == 0 {
		t.Error("a cap was never used up: the workers did not compete")
	}
}
