package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func TestEnqueueAll(t *testing.T) {
	d := testbed.DB(t)
	p := newProducer(t, d, d.URL)
	twice := p.order("twice")
	lists := [][]work.Order{p.filled(copied, twice), p.filled(2, p.order("twice")), p.filled(copied + 10)}
	all := func(keep bool, failure error) string {
		var words []string
		err := p.store.EnqueueAll(t.Context(), func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
			for _, list := range lists {
				receipts, err := put(list)
				if err != nil {
					return false, err
				}
				words = append(words, string(receipts[0].Result))
			}
			return keep, failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
		return strings.Join(words, " ")
	}
	rows := func(want int) {
		t.Helper()
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); n != int64(want) {
			t.Errorf("%d rows, want %d", n, want)
		}
	}
	own := errors.New("own")
	for range 2 {
		if got := all(false, nil) + " " + all(true, own); got != "enqueued duplicate enqueued enqueued duplicate enqueued" {
			t.Error(got)
		}
		rows(0)
	}
	if got := all(true, nil); got != "enqueued duplicate enqueued" {
		t.Error(got)
	}
	rows(2*copied + 11)
	if got := all(true, nil); got != "duplicate duplicate duplicate" {
		t.Error(got)
	}
	rows(2*copied + 11)
	testbed.Check(t, d)
}

func TestEnqueueAllWithAnUnansweredCommit(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(*testbed.Link) *testbed.Cut
		kept int64
	}{
		"stored":     {func(l *testbed.Link) *testbed.Cut { return l.CutAfterAnswer(testbed.Says("COMMIT")) }, 1},
		"not stored": {func(l *testbed.Link) *testbed.Cut { return l.CutBefore(testbed.Says("COMMIT")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := testbed.DB(t)
			link := testbed.Proxy(t, d.URL)
			p := newProducer(t, d, link.URL(d.URL))
			cut := c.cut(link)
			err := p.store.EnqueueAll(t.Context(), func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
				_, err := put([]work.Order{p.order("a")})
				return true, err
			})
			testbed.Await(t, "the cut", cut.Done)
			if (err == nil) != (c.kept == 1) || err != nil && !errors.Is(err, work.ErrUnreachable) {
				t.Errorf("%v", err)
			}
			if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); n != c.kept {
				t.Errorf("%d rows, want %d", n, c.kept)
			}
		})
	}
}

// Behind a pooler in transaction mode nothing may be left in the session.
func TestEnqueueThroughAPooler(t *testing.T) {
	d := testbed.DB(t)
	pool := testbed.Pooler(t, d, 1)
	p := newProducer(t, d, pool.URL)
	for i := range 3 {
		for _, n := range []int{3, copied} {
			if got := p.enqueue(p.filled(n)...); got[n-1].Result != work.Enqueued {
				t.Errorf("round %d of %d: %+v", i, n, got[n-1])
			}
		}
	}
	testbed.Check(t, d)
}

func TestEnqueueInAnotherSchema(t *testing.T) {
	d := testbed.EmptyDB(t)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: "hooks"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	testbed.Exec(t, d, `INSERT INTO hooks.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	p := producer{t: t, store: s, destination: 1}
	for _, n := range []int{3, copied} {
		orders := p.filled(n)
		if got := results(p.enqueue(orders...), 2) + " " + results(p.enqueue(orders...), 2); got != "enqueued enqueued duplicate duplicate" {
			t.Error(got)
		}
	}
	if may, err := s.MayEnqueue(t.Context()); !may || err != nil {
		t.Errorf("may enqueue: %v, %v", may, err)
	}
	if r, err := s.EnqueueByFunction(t.Context(), p.order("f")); err != nil || r.Result != work.Enqueued {
		t.Errorf("by the function: %+v, %v", r, err)
	}
}

func TestWhoMayEnqueue(t *testing.T) {
	d := testbed.DB(t)
	p := newProducer(t, d, d.URL)
	for group, want := range map[string]bool{"whctl_producer": false, "whctl_worker": true, "whctl_operator": true, "whctl_reader": false} {
		_, url := d.Login(t, group)
		own := producer{t: t, store: openURL(t, url), destination: p.destination}
		if may, err := own.store.MayEnqueue(t.Context()); may != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", group, may, err, want)
		}
		for _, n := range []int{1, copied} {
			_, err := own.store.Enqueue(t.Context(), own.filled(n))
			if want && err != nil || !want && !errors.Is(err, work.ErrGrant) {
				t.Errorf("%s: %v", group, err)
			}
		}
		r, err := own.store.EnqueueByFunction(t.Context(), own.order(group))
		if group == "whctl_reader" {
			if !errors.Is(err, work.ErrGrant) {
				t.Errorf("%s by the function: %v", group, err)
			}
		} else if err != nil || r.Result != work.Enqueued {
			t.Errorf("%s by the function: %+v, %v", group, r, err)
		}
	}
}

func TestEnqueueByFunction(t *testing.T) {
	d := testbed.DB(t)
	link := testbed.Proxy(t, d.URL)
	p := newProducer(t, d, link.URL(d.URL))
	first := p.order("a")
	first.EventAt, first.NotBefore, first.NotAfter = ptr(t, "0001-01-01T00:00:00Z"), ptr(t, "2026-01-01T00:00:00Z"), ptr(t, "9999-12-31T23:59:59.9999999Z")
	other, taken, nowhere, late, big := p.order("a"), p.order("b"), p.order("c"), p.order("d"), p.order("e")
	other.Payload = []byte("[]")
	taken.DeliveryID = first.DeliveryID
	nowhere.Destination = "nowhere"
	late.NotAfter = ptr(t, "2020-01-01T00:00:00Z")
	big.Payload = make([]byte, 256<<10+1)
	cut := link.CutAfterAnswer(testbed.Says("COMMIT"))
	for i, c := range []struct {
		order work.Order
		want  work.Receipt
		err   error
	}{
		{first, work.Receipt{Result: work.Enqueued, DeliveryID: first.DeliveryID}, nil}, // its COMMIT is not answered
		{first, work.Receipt{Result: work.Duplicate, DeliveryID: first.DeliveryID}, nil},
		{p.order("a"), work.Receipt{Result: work.Duplicate, DeliveryID: first.DeliveryID}, nil},
		{other, work.Receipt{Result: work.Conflict, DeliveryID: first.DeliveryID}, nil},
		{taken, work.Receipt{Result: work.Conflict, DeliveryID: first.DeliveryID, Taken: true}, nil},
		{nowhere, work.Receipt{Result: work.UnknownDestination}, nil},
		{late, work.Receipt{}, work.ErrData},
		{big, work.Receipt{}, work.ErrData},
	} {
		got, err := p.store.EnqueueByFunction(t.Context(), c.order)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d: %+v, %v; want %+v, %v", i, got, err, c.want, c.err)
		}
	}
	testbed.Await(t, "the cut", cut.Done)
	if got, want := testbed.QueryString(t, d, `SELECT concat_ws(' ', extract(year FROM e.event_at), d.next_attempt_at, e.not_after, (SELECT count(*) FROM whctl.deliveries))
		FROM whctl.envelopes e JOIN whctl.deliveries d ON d.id = e.id`), "1 2026-01-01 00:00:00+00 9999-12-31 23:59:59.999999+00 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	testbed.Check(t, d)
}

// What is enqueued from a stream may wait for it, where any other transaction may not.
func TestEnqueueAllMayStandStill(t *testing.T) {
	d := testbed.DB(t)
	link := testbed.Proxy(t, d.URL)
	p := newProducer(t, d, link.URL(d.URL))
	heard := overhear(link)
	err := p.store.EnqueueAll(t.Context(), func(func([]work.Order) ([]work.Receipt, error)) (bool, error) {
		var last string
		for _, request := range heard.since() {
			if _, value, set := strings.Cut(request, "SET LOCAL idle_in_transaction_session_timeout"); set {
				last = value
			}
		}
		if !strings.HasPrefix(last, " TO DEFAULT") {
			t.Errorf("it may stand still for%q", last)
		}
		return false, nil
	})
	if err != nil {
		t.Error(err)
	}
}
