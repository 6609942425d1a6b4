package enqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"example.com/whctl/internal/work"
)

// fakeStore keeps orders in memory.
type fakeStore struct {
	destinations map[string]work.Destination
	before       func(ctx context.Context, n int, orders []work.Order) error // called with each call of Enqueue, counted from 1
	limited      bool                                                        // only the function

	mu     sync.Mutex
	calls  int
	sizes  []int
	events map[[5]string]work.Order
	ids    map[string]bool
}

func newFake() *fakeStore {
	return &fakeStore{
		destinations: map[string]work.Destination{"r": {ID: 1, Name: "r", Policy: "default"}, "raw": {ID: 2, Name: "raw", Body: work.BodyRaw}},
		events:       map[[5]string]work.Order{}, ids: map[string]bool{},
	}
}

func (f *fakeStore) NamedDestinations(_ context.Context, names []string) (found []work.Destination, err error) {
	for _, n := range names {
		if d, ok := f.destinations[n]; ok {
			found = append(found, d)
		}
	}
	return found, nil
}

func (f *fakeStore) Enqueue(ctx context.Context, orders []work.Order) ([]work.Receipt, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.sizes = append(f.sizes, len(orders))
	f.mu.Unlock()
	if f.before != nil {
		if err := f.before(ctx, n, orders); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	receipts := make([]work.Receipt, len(orders))
	for i, o := range orders {
		receipts[i] = f.one(o)
	}
	return receipts, nil
}

func (f *fakeStore) one(o work.Order) work.Receipt {
	key := [5]string{o.Destination, o.Tenant, o.Subject, o.EventType, o.EventVersion}
	if old, known := f.events[key]; known {
		if string(old.Payload) == string(o.Payload) {
			return work.Receipt{Result: work.Duplicate, DeliveryID: old.DeliveryID}
		}
		return work.Receipt{Result: work.Conflict, DeliveryID: old.DeliveryID}
	}
	if f.ids[o.DeliveryID] {
		return work.Receipt{Result: work.Conflict, DeliveryID: o.DeliveryID, Taken: true}
	}
	f.events[key], f.ids[o.DeliveryID] = o, true
	return work.Receipt{Result: work.Enqueued, DeliveryID: o.DeliveryID}
}

func (f *fakeStore) EnqueueAll(ctx context.Context, run func(put func([]work.Order) ([]work.Receipt, error)) (bool, error)) error {
	inner := newFake()
	inner.before = f.before
	keep, err := run(func(o []work.Order) ([]work.Receipt, error) { return inner.Enqueue(ctx, o) })
	if err == nil && keep {
		f.events = inner.events
	}
	return err
}

func (f *fakeStore) MayEnqueue(context.Context) (bool, error) { return !f.limited, nil }

func (f *fakeStore) EnqueueByFunction(_ context.Context, o work.Order) (work.Receipt, error) {
	f.calls++
	if _, known := f.destinations[o.Destination]; !known {
		return work.Receipt{Result: work.UnknownDestination}, nil
	}
	if len(o.Payload) > 100 {
		return work.Receipt{}, fmt.Errorf("%w: too large", work.ErrData)
	}
	return f.one(o), nil
}

// lineOf is a line with this subject.
func lineOf(subject string) string {
	return `{"destination":"r","type":"t","subject":"` + subject + `","payload":{}}` + "\n"
}

// problems collects what is reported.
type problems []string

func (p *problems) add(x Problem) { *p = append(*p, fmt.Sprintf("%d:%d:%s", x.Line, x.Kind, x.Reason)) }

func count(t *testing.T, s Summary, want string) {
	t.Helper()
	got := fmt.Sprintf("%d enqueued, %d duplicates, %d conflicts, %d rejected to line %d", s.Enqueued, s.Duplicates, s.Conflicts, s.Rejected, s.Lines)
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
