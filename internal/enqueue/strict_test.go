package enqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

func TestStrictKeepsAllOrNothing(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		kept             int
	}{
		{"all", many(3*chunkLines, "s%d"), fmt.Sprintf("%d enqueued, 0 duplicates, 0 conflicts, 0 rejected to line %d", 3*chunkLines, 3*chunkLines), 3 * chunkLines},
		{"duplicates", many(2, "s%d") + many(2, "s%d"), "2 enqueued, 2 duplicates, 0 conflicts, 0 rejected to line 4", 2},
		{"rejected", many(chunkLines, "s%d") + "x\n" + many(1, "t%d"), fmt.Sprintf("0 enqueued, 0 duplicates, 0 conflicts, 1 rejected to line %d", chunkLines+2), 0},
		{"nothing", "", "0 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 0", 0},
	} {
		f := newFake()
		sum, err := Lines(t.Context(), f, strings.NewReader(c.text), Options{PayloadMax: limit, Strict: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		count(t, sum, c.want)
		if len(f.events) != c.kept {
			t.Errorf("%s: %d events were kept, want %d", c.name, len(f.events), c.kept)
		}
	}
}

func TestStrictWithAFailure(t *testing.T) {
	f := newFake()
	f.before = func(_ context.Context, n int, _ []work.Order) error {
		if n == 2 {
			return work.ErrUnreachable
		}
		return nil
	}
	sum, err := Lines(t.Context(), f, strings.NewReader(many(3*chunkLines, "s%d")), Options{PayloadMax: limit, Strict: true})
	if !errors.Is(err, work.ErrUnreachable) || !strings.HasPrefix(err.Error(), "nothing was kept: ") || sum.Enqueued != 0 || len(f.events) != 0 {
		t.Errorf("%v, %+v, %d kept", err, sum, len(f.events))
	}
}

func order(destination, payload string) work.Order {
	o := work.Order{Destination: destination, EventType: "t", EventVersion: "1", Payload: []byte(payload)}
	if err := Complete(&o, limit); err != nil {
		panic(err)
	}
	return o
}

func TestOne(t *testing.T) {
	for _, limited := range []bool{false, true} {
		f := newFake()
		f.limited = limited
		o := order("r", "{}")
		other := order("r", "[]")
		for i, c := range []struct {
			order    work.Order
			want     string
			id       string
			reported int
		}{
			{o, "1 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 0", o.DeliveryID, 0},
			{order("r", "{}"), "0 enqueued, 1 duplicates, 0 conflicts, 0 rejected to line 0", o.DeliveryID, 0},
			{other, "0 enqueued, 0 duplicates, 1 conflicts, 0 rejected to line 0", o.DeliveryID, 1},
		} {
			var found problems
			sum, receipt, err := One(t.Context(), f, c.order, Options{PayloadMax: limit, Problem: found.add})
			if err != nil || receipt.DeliveryID != c.id || len(found) != c.reported {
				t.Errorf("limited %v, %d: %+v, %v, reported %q", limited, i, receipt, err, found)
			}
			count(t, sum, c.want)
		}
		if _, _, err := One(t.Context(), f, order("nowhere", "{}"), Options{PayloadMax: limit}); !errors.Is(err, work.ErrNotFound) {
			t.Errorf("limited %v: unknown destination: %v", limited, err)
		}
	}
}

func TestOneThatIsRejected(t *testing.T) {
	f := newFake()
	var found problems
	o := Options{PayloadMax: limit, Problem: found.add, Body: func(string) work.BodyKind { return work.BodyEnvelope }}
	sum, receipt, err := One(t.Context(), f, order("r", "{"), o)
	if err != nil || receipt != (work.Receipt{}) || len(found) != 1 {
		t.Errorf("%+v, %v, %q", receipt, err, found)
	}
	count(t, sum, "0 enqueued, 0 duplicates, 0 conflicts, 1 rejected to line 0")
	f.limited = true // the function refuses it
	sum, receipt, err = One(t.Context(), f, order("r", strings.Repeat("x", 101)), o)
	if err != nil || receipt != (work.Receipt{}) || len(found) != 2 {
		t.Errorf("%+v, %v, %q", receipt, err, found)
	}
	count(t, sum, "0 enqueued, 0 duplicates, 0 conflicts, 1 rejected to line 0")
}
