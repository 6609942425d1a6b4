package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// fakeStore has n dead letters, d1 to dn, one each second.
type fakeStore struct {
	n    int
	asks []int // the limits that were asked for
	err  error
}

var epoch = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

func (f *fakeStore) from(q work.LetterQuery) int {
	if q.After.DiedAt.IsZero() {
		return 1
	}
	return int(q.After.DiedAt.Sub(epoch)/time.Second) + 1
}

func (f *fakeStore) DeadLetters(_ context.Context, q work.LetterQuery) ([]work.Letter, error) {
	f.asks = append(f.asks, q.Limit)
	if f.err != nil {
		return nil, f.err
	}
	var letters []work.Letter
	for i := f.from(q); i <= f.n && len(letters) < q.Limit; i++ {
		letters = append(letters, work.Letter{DeliveryID: fmt.Sprintf("d%d", i), DiedAt: epoch.Add(time.Duration(i) * time.Second)})
	}
	return letters, nil
}

func (f *fakeStore) CountDeadLetters(_ context.Context, q work.LetterQuery) (int64, error) {
	return int64(min(f.n-f.from(q)+1, q.Limit)), f.err
}

func TestEach(t *testing.T) {
	for _, c := range []struct {
		have, limit, seen, pages int
		more                     int64
		capped                   bool
	}{
		{0, 10, 0, 1, 0, false},
		{9, 10, 9, 1, 0, false},
		{10, 10, 10, 1, 0, false},
		{11, 10, 10, 1, 1, false},
		{2500, 5000, 2500, 3, 0, false},
		{2500, 2000, 2000, 2, 500, false},
		{1000, 1000, 1000, 1, 0, false},
		{1001, 1000, 1000, 1, 1, false},
		{10_001, 1, 1, 1, 10_000, false},
		{10_002, 1, 1, 1, 10_000, true},
	} {
		f := &fakeStore{n: c.have}
		var seen []string
		rest, err := Each(t.Context(), f, work.LetterQuery{Limit: c.limit}, func(ls []work.Letter) error {
			for _, l := range ls {
				seen = append(seen, l.DeliveryID)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range seen {
			if id != fmt.Sprintf("d%d", i+1) {
				t.Fatalf("%+v: row %d is %s", c, i, id)
			}
		}
		if len(seen) != c.seen || len(f.asks) != c.pages {
			t.Errorf("%+v: %d rows in %d pages", c, len(seen), len(f.asks))
		}
		if slices.Max(f.asks) > pageRows+1 {
			t.Errorf("%+v: asked for %v", c, f.asks)
		}
		n, capped, err := Count(t.Context(), f, rest)
		if err != nil || n != c.more || capped != c.capped {
			t.Errorf("%+v: %d more, capped %v, %v", c, n, capped, err)
		}
	}
}

func TestEachEndsWithTheFirstError(t *testing.T) {
	sentinel := errors.New("stop")
	if _, err := Each(t.Context(), &fakeStore{err: sentinel}, work.LetterQuery{Limit: 1}, nil); !errors.Is(err, sentinel) {
		t.Errorf("of the store: %v", err)
	}
	f := &fakeStore{n: 5000}
	calls := 0
	_, err := Each(t.Context(), f, work.LetterQuery{Limit: 5000}, func([]work.Letter) error { calls++; return sentinel })
	if !errors.Is(err, sentinel) || calls != 1 {
		t.Errorf("of the caller: %v after %d calls", err, calls)
	}
}

func TestCursorsReadBack(t *testing.T) {
	p := work.LetterPlace{DiedAt: time.Date(2026, 11, 1, 12, 0, 0, 123_456_000, time.FixedZone("", 3600)), DeliveryID: "a.b:c-d_e"}
	if got, want := Cursor(p), "2026-11-01T11:00:00.123456Z,a.b:c-d_e"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	got, err := ParseCursor(Cursor(p))
	if err != nil || !got.DiedAt.Equal(p.DiedAt) || got.DeliveryID != p.DeliveryID {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseCursor(""); err != nil || got != (work.LetterPlace{}) {
		t.Errorf("empty: %+v, %v", got, err)
	}
	for _, bad := range []string{
		"x", ",", "2026-11-01T11:00:00Z", "2026-11-01T11:00:00Z,", "2026-11-01T11:00:00Z,a b", "2026-11-01,a", ",a", "0000-01-01T00:00:00Z,a",
		"0001-01-01T00:00:00Z,a",
	} {
		if _, err := ParseCursor(bad); !errors.Is(err, work.ErrUsage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSelections(t *testing.T) {
	f, err := Selection{
		Destinations: []string{"a"}, Tenants: []string{"", "x,y%_*"}, EventTypes: []string{"e"}, Classes: []string{"timeout", "lost"}, Statuses: []string{"503"},
	}.Filter()
	if err != nil || !slices.Equal(f.Tenants, []string{"", "x,y%_*"}) || !slices.Equal(f.Classes, []work.Class{work.Timeout, work.Lost}) || !slices.Equal(f.Statuses, []int{503}) {
		t.Errorf("%+v, %v", f, err)
	}
	for _, bad := range []Selection{
		{Classes: []string{"Timeout"}},
		{Classes: []string{""}},
		{Classes: []string{"time%"}},
		{Statuses: []string{""}},
		{Statuses: []string{"5xx"}},
		{Statuses: []string{"0"}},
		{Statuses: []string{"-1"}},
		{Statuses: []string{"70000"}},
		{Tenants: []string{"\xff"}},
		{EventTypes: []string{"a\x00b"}},
	} {
		if _, err := bad.Filter(); !errors.Is(err, work.ErrUsage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
