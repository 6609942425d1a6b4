package pgstore_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// Several producers with the same events: each event gets in once, and is counted once.
func TestEnqueueAtTheSameTime(t *testing.T) {
	for _, n := range []int{40, 400} {
		d := testbed.DB(t)
		orders := newProducer(t, d, d.URL).filled(n)
		backwards := slices.Clone(orders)
		slices.Reverse(backwards) // so that they wait for each other in a circle
		var mu sync.Mutex
		counts := map[work.EnqueueResult]int{}
		var wg sync.WaitGroup
		for i := range 4 {
			p := newProducer(t, d, d.URL)
			list := [][]work.Order{orders, backwards}[i%2]
			wg.Go(func() {
				receipts, err := p.store.Enqueue(t.Context(), list)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range receipts {
					counts[r.Result]++
				}
			})
		}
		wg.Wait()
		if counts[work.Enqueued] != n || counts[work.Duplicate] != 3*n {
			t.Errorf("of %d events by four: %v", n, counts)
		}
		testbed.Check(t, d)
	}
}

// An unanswered COMMIT is asked for: what it stored is enqueued, no duplicate; what it
// did not store is put in again.
func TestEnqueueWithAnUnansweredCommit(t *testing.T) {
	for _, n := range []int{3, copied} {
		for name, cut := range map[string]func(*testbed.Link) *testbed.Cut{
			"stored":     func(l *testbed.Link) *testbed.Cut { return l.CutAfterAnswer(testbed.Says("COMMIT")) },
			"not stored": func(l *testbed.Link) *testbed.Cut { return l.CutBefore(testbed.Says("COMMIT")) },
		} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				d := testbed.DB(t)
				link := testbed.Proxy(t, d.URL)
				p := newProducer(t, d, link.URL(d.URL))
				p.enqueue(p.order("before"))
				orders := append(p.filled(n-1), p.order("before"))
				c := cut(link)
				got := p.enqueue(orders...)
				testbed.Await(t, "the cut", c.Done)
				if r, want := results(got, n), strings.Repeat("enqueued ", n-1)+"duplicate"; r != want {
					t.Errorf("results %s", r)
				}
				if rows := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); rows != int64(n) {
					t.Errorf("%d rows, want %d", rows, n)
				}
				testbed.Check(t, d)
			})
		}
	}
}

// A destination that is being removed: the enqueue waits, and finds it gone.
func TestEnqueueIntoADestinationThatGoes(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('s', 'https://s.example/')`)
		found, err := p.store.NamedDestinations(t.Context(), []string{"s"})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := d.Admin.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), `DELETE FROM whctl.destinations WHERE name = 's'`); err != nil {
			t.Fatal(err)
		}
		o := p.order("a")
		o.Destination, o.DestinationID = "s", found[0].ID
		done := make(chan []work.Receipt, 1)
		go func() { done <- p.enqueue(p.filled(n, o)...) }()
		awaitLockWaiter(t, d)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := testbed.Await(t, "the enqueue", done); got[0].Result != work.UnknownDestination {
			t.Errorf("%+v", got[0])
		}
	})
}

// And the other way round: what was put in keeps the destination.
func TestEnqueueKeepsItsDestination(t *testing.T) {
	d := testbed.DB(t)
	p := newProducer(t, d, d.URL)
	remover := open(t, d)
	type answer struct {
		removed bool
		err     error
	}
	done := make(chan answer, 1)
	err := p.store.EnqueueAll(t.Context(), func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
		if _, err := put([]work.Order{p.order("a")}); err != nil {
			return false, err
		}
		go func() {
			removed, _, err := remover.RemoveDestination(t.Context(), "r")
			done <- answer{removed, err}
		}()
		awaitLockWaiter(t, d)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := testbed.Await(t, "the removal", done); got.removed || got.err != nil {
		t.Errorf("removed %v, %v", got.removed, got.err)
	}
}
