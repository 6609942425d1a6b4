package sweep_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/whctl/internal/sweep"
	"example.com/whctl/internal/work"
)

const day = 24 * time.Hour

func policyOf(name string, version int, keep time.Duration) work.Retention {
	return work.Retention{Name: name, Version: version, Target: work.TargetDeliveries, States: []work.State{work.Delivered}, Keep: keep, Batch: 1000}
}

func TestJudge(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	old := policyOf("p", 1, 30*day)
	record := func(p work.Retention, previewed, swept time.Time) work.RetentionVersion {
		return work.RetentionVersion{Version: p.Version, Definition: p.Definition(), Keep: p.Keep, PreviewedAt: previewed, SweptAt: swept}
	}
	swept := record(old, time.Time{}, noon)
	shorter, longer := policyOf("p", 2, 7*day), policyOf("p", 2, 60*day)
	for name, c := range map[string]struct {
		policy work.Retention
		known  []work.RetentionVersion
		byHand bool
		want   error
	}{
		"never seen":                        {old, nil, false, nil},
		"as it was":                         {old, []work.RetentionVersion{swept}, false, nil},
		"changed under its version":         {policyOf("p", 1, 29*day), []work.RetentionVersion{swept}, false, work.ErrConfig},
		"changed, and by hand":              {policyOf("p", 1, 29*day), []work.RetentionVersion{swept}, true, work.ErrConfig},
		"shorter, not looked at":            {shorter, []work.RetentionVersion{swept, record(shorter, time.Time{}, time.Time{})}, false, work.ErrRefused},
		"shorter, looked at too early":      {shorter, []work.RetentionVersion{swept, record(shorter, noon.Add(-time.Hour), time.Time{})}, false, work.ErrRefused},
		"shorter, looked at since":          {shorter, []work.RetentionVersion{swept, record(shorter, noon.Add(time.Hour), time.Time{})}, false, nil},
		"shorter, and by hand":              {shorter, []work.RetentionVersion{swept}, true, nil},
		"shorter, and swept by already":     {shorter, []work.RetentionVersion{swept, record(shorter, time.Time{}, noon.Add(time.Hour))}, false, nil},
		"shorter, beside what never swept":  {shorter, []work.RetentionVersion{record(old, noon, time.Time{})}, false, nil},
		"longer":                            {longer, []work.RetentionVersion{swept}, false, nil},
		"back to less, swept by before":     {old, []work.RetentionVersion{swept, record(longer, time.Time{}, noon.Add(time.Hour))}, false, work.ErrRefused},
		"more states":                       {func() work.Retention { p := longer; p.States = []work.State{work.Delivered, work.Dead}; return p }(), []work.RetentionVersion{swept}, false, work.ErrRefused},
		"another batch is no other meaning": {func() work.Retention { p := old; p.Batch, p.MaxRows = 5, 7; return p }(), []work.RetentionVersion{swept}, false, nil},
	} {
		if err := sweep.Judge(c.policy, c.known, c.byHand); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		rows              int64
		fraction          float64
		candidates, total int64
		refused           bool
	}{
		{0, 0, 1 << 40, 0, false}, {10, 0, 10, 0, false}, {10, 0, 11, 0, true}, {0, 0.5, 5, 10, false}, {0, 0.5, 6, 10, true}, {0, 1, 10, 10, false}, {100, 0.1, 2, 10, true},
	} {
		p := work.Retention{Name: "p", MaxRows: c.rows, MaxFraction: c.fraction}
		if err := sweep.Admit(p, c.candidates, c.total); errors.Is(err, work.ErrRefused) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// store is a table with so many candidates of each policy.
type store struct {
	left   map[string]int
	takes  time.Duration // a batch
	brakes func() work.Brakes
	fails  func(limit int) error
	keeps  bool // nothing goes, as where each delivery has one attempt
	begun  error
	turns  []string // the policies in the order of their batches
	sizes  []int
	ended  map[string]bool // done or not, of those that were left
}

func (s *store) BeginSweep(_ context.Context, r work.SweepRequest) (work.Sweep, error) {
	if s.begun != nil {
		return work.Sweep{}, s.begun
	}
	id := int64(1)
	if s.left[r.Policy.Name] == 0 {
		id = 0
	}
	return work.Sweep{ID: id, Policy: r.Policy.Name, Version: 1, Target: r.Policy.Target}, r.Judge(nil)
}

func (s *store) SweepBatch(ctx context.Context, r work.SweepBatch) (work.Swept, error) {
	time.Sleep(s.takes)
	s.sizes = append(s.sizes, r.Limit)
	if s.fails != nil {
		if err := s.fails(r.Limit); err != nil {
			return work.Swept{}, err
		}
	}
	if ctx.Err() != nil {
		return work.Swept{}, ctx.Err()
	}
	if r.Archive != nil {
		if _, err := r.Archive("key", nil); err != nil {
			return work.Swept{}, err
		}
	}
	s.turns = append(s.turns, r.Sweep.Policy)
	if s.keeps {
		return work.Swept{Looked: int64(r.Limit)}, nil
	}
	n := min(r.Limit, s.left[r.Sweep.Policy])
	s.left[r.Sweep.Policy] -= n
	return work.Swept{Key: "key", Looked: int64(n), Deliveries: int64(n), Last: n < r.Limit}, nil
}

func (s *store) EndSweep(_ context.Context, sweep work.Sweep, _ string, done bool) error {
	s.ended[sweep.Policy] = done
	return nil
}

func (s *store) Rest(_ context.Context, sweep work.Sweep, _ int64) (work.Rest, error) {
	return work.Rest{Remaining: int64(s.left[sweep.Policy])}, nil
}

func (s *store) Brakes(context.Context) (work.Brakes, error) { return s.brakes(), nil }

func (s *store) options(names ...string) sweep.Options {
	s.ended = map[string]bool{}
	o := sweep.Options{Owner: "w", Pause: -1, Log: slog.New(slog.DiscardHandler), Reach: func(p work.Retention) work.Reach { return work.Reach{Age: p.Keep} }}
	for _, n := range names {
		o.Policies = append(o.Policies, policyOf(n, 1, 30*day))
	}
	return o
}

// within runs f with a clock of its own.
func within(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestPoliciesTakeTurns(t *testing.T) {
	within(t, func(t *testing.T) {
		s := &store{left: map[string]int{"a": 3500, "b": 900, "c": 0}, takes: 10 * time.Millisecond}
		began := time.Now()
		sums, err := sweep.Run(t.Context(), s, s.options("a", "b", "c"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.turns, ""); got != "abaaa" {
			t.Errorf("turns %s", got)
		}
		for i, want := range []int64{3500, 900, 0} {
			if sums[i].Deliveries != want || sums[i].StoppedBy != sweep.Drained || *sums[i].Remaining != 0 {
				t.Errorf("%+v", sums[i])
			}
		}
		if !s.ended["a"] || !s.ended["b"] {
			t.Errorf("ended: %v", s.ended)
		}
		if _, touched := s.ended["c"]; touched {
			t.Error("a sweep that was not begun was ended")
		}
		if took := time.Since(began); took != 90*time.Millisecond { // five batches, and a rest after all but the last
			t.Errorf("took %s", took)
		}
	})
}

func TestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		set     func(o *sweep.Options)
		want    sweep.StoppedBy
		batches int
	}{
		"batches":       {func(o *sweep.Options) { o.MaxBatches = 3 }, sweep.MaxBatches, 3},
		"time":          {func(o *sweep.Options) { o.MaxTime = 50 * time.Millisecond }, sweep.MaxTime, 3},
		"a long rest":   {func(o *sweep.Options) { o.MaxTime, o.Pause = 50*time.Millisecond, time.Hour }, sweep.MaxTime, 1},
		"no rest":       {func(o *sweep.Options) { o.MaxTime, o.Pause = 50*time.Millisecond, 0 }, sweep.MaxTime, 5},
		"a stop file":   {func(o *sweep.Options) { o.Stopped = func() (bool, error) { return true, nil } }, sweep.StopFile, 0},
		"smaller ones":  {func(o *sweep.Options) { o.Batch, o.MaxBatches = 10, 2 }, sweep.MaxBatches, 2},
		"time is short": {func(o *sweep.Options) { o.MaxTime = 1 }, sweep.MaxTime, 1},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T) {
				s := &store{left: map[string]int{"a": 100_000}, takes: 10 * time.Millisecond}
				o := s.options("a")
				c.set(&o)
				sums, err := sweep.Run(t.Context(), s, o)
				if err != nil || sums[0].StoppedBy != c.want || sums[0].Batches != c.batches || s.ended["a"] {
					t.Errorf("%+v, %v", sums, err)
				}
			})
		})
	}
}

// Bounds hold also where batches remove nothing.
func TestBoundsOfASweepThatRemovesNothing(t *testing.T) {
	within(t, func(t *testing.T) {
		s := &store{left: map[string]int{"a": 1}, takes: 10 * time.Millisecond, keeps: true}
		o := s.options("a")
		o.MaxTime = 50 * time.Millisecond
		if sums, err := sweep.Run(t.Context(), s, o); err != nil || sums[0].StoppedBy != sweep.MaxTime || sums[0].Batches != 0 || len(s.turns) != 3 {
			t.Errorf("%+v, %v, %d turns", sums, err, len(s.turns))
		}
		o.MaxTime, o.MaxBatches = 0, 4
		s.turns = nil
		if sums, err := sweep.Run(t.Context(), s, o); err != nil || sums[0].StoppedBy != sweep.MaxBatches || len(s.turns) != 4 {
			t.Errorf("%+v, %v, %d turns", sums, err, len(s.turns))
		}
		o.MaxLag = time.Second
		s.brakes = func() work.Brakes { return work.Brakes{Lag: time.Hour} }
		if sums, err := sweep.Run(t.Context(), s, o); err != nil || sums[0].StoppedBy != sweep.Lag {
			t.Errorf("%+v, %v", sums, err)
		}
	})
}

func TestASignalEndsTheRest(t *testing.T) {
	within(t, func(t *testing.T) {
		s := &store{left: map[string]int{"a": 100_000}, takes: time.Millisecond}
		o := s.options("a")
		o.Pause = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		began := time.Now()
		sums, err := sweep.Run(ctx, s, o)
		if err != nil || sums[0].StoppedBy != sweep.Signal || sums[0].Batches != 1 || time.Since(began) != time.Minute {
			t.Errorf("%+v, %v after %s", sums, err, time.Since(began))
		}
	})
}

func TestBrakesAreWaitedForAndNamed(t *testing.T) {
	within(t, func(t *testing.T) {
		began := time.Now()
		s := &store{left: map[string]int{"a": 2500}, takes: time.Millisecond, brakes: func() work.Brakes {
			if time.Since(began) < 3500*time.Millisecond {
				return work.Brakes{Lag: time.Minute}
			}
			return work.Brakes{XminAge: time.Second}
		}}
		o := s.options("a")
		o.MaxLag, o.MaxXminAge, o.MaxTime = 10*time.Second, time.Hour, time.Minute
		sums, err := sweep.Run(t.Context(), s, o)
		if err != nil || sums[0].StoppedBy != sweep.Drained || time.Since(began) < 3500*time.Millisecond {
			t.Errorf("%+v, %v after %s", sums, err, time.Since(began))
		}
		s.left["a"], o.MaxXminAge = 2500, time.Millisecond
		began = time.Now().Add(-time.Hour)
		sums, err = sweep.Run(t.Context(), s, o)
		if err != nil || sums[0].StoppedBy != sweep.XminAge || sums[0].Batches != 0 {
			t.Errorf("%+v, %v", sums, err)
		}
	})
}

func TestABatchInTheWayIsMadeSmaller(t *testing.T) {
	within(t, func(t *testing.T) {
		s := &store{left: map[string]int{"a": 2000}, fails: func(limit int) error {
			if limit > 250 {
				return work.ErrContended
			}
			return nil
		}}
		sums, err := sweep.Run(t.Context(), s, s.options("a"))
		if err != nil || sums[0].Deliveries != 2000 || !slices.Equal(s.sizes[:3], []int{1000, 500, 250}) {
			t.Errorf("%+v, %v, sizes %v", sums, err, s.sizes)
		}
		s.left["a"], s.sizes, s.fails = 2000, nil, func(int) error { return work.ErrContended }
		sums, err = sweep.Run(t.Context(), s, s.options("a"))
		if !errors.Is(err, work.ErrContended) || sums[0].StoppedBy != sweep.Failed || len(s.sizes) != 10 || s.sizes[9] != 63 {
			t.Errorf("%+v, %v, sizes %v", sums, err, s.sizes)
		}
	})
}

func TestASlowBatchMakesTheNextSmaller(t *testing.T) {
	within(t, func(t *testing.T) {
		s := &store{left: map[string]int{"a": 2600}, takes: time.Second}
		o := s.options("a")
		o.Pause = 0
		s.fails = func(int) error {
			if len(s.sizes) >= 3 {
				s.takes = time.Millisecond
			}
			return nil
		}
		if _, err := sweep.Run(t.Context(), s, o); err != nil || !slices.Equal(s.sizes[:6], []int{1000, 500, 250, 125, 250, 500}) {
			t.Errorf("%v, sizes %v", err, s.sizes)
		}
	})
}

type broken struct{ closed bool }

func (b *broken) Append(string, []work.Archived) (work.ArchiveMark, error) {
	return work.ArchiveMark{}, errors.New("the disk is full")
}

func (b *broken) Close() error {
	b.closed = true
	return nil
}

func TestAnArchiveThatFailsKeepsTheRows(t *testing.T) {
	s := &store{left: map[string]int{"a": 10, "b": 10}}
	o := s.options("a", "b")
	o.Policies[1].Archive = true
	a := &broken{}
	o.Archive = func(work.Retention, work.Sweep) (sweep.Archive, error) { return a, nil }
	o.Pause = 0
	sums, err := sweep.Run(t.Context(), s, o)
	if err == nil || s.left["b"] != 10 || sums[0].Deliveries != 10 || sums[1].StoppedBy != sweep.Failed || !a.closed {
		t.Errorf("%+v, %v, left %v", sums, err, s.left)
	}
	s.left["a"] = 10
	o.Archive = func(work.Retention, work.Sweep) (sweep.Archive, error) { return nil, work.ErrConfig }
	if sums, err := sweep.Run(t.Context(), s, o); !errors.Is(err, work.ErrConfig) || s.left["a"] != 10 || len(sums) != 0 {
		t.Errorf("%+v, %v: what cannot be archived is known before anything goes", sums, err)
	}
}
