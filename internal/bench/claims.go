package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// places is deliver's default.
const places = 256

// claim is one claim that was made.
type claim struct {
	took time.Duration
	rows int
	down int // of them, those of d0
}

// timed is the work table with a watch on its claims. Only the run's own goroutine claims.
type timed struct {
	*pgstore.Store
	claims []claim
}

// Claim is that of the store.
func (t *timed) Claim(ctx context.Context, r work.ClaimRequest) (work.ClaimResult, error) {
	begun := time.Now()
	result, err := t.Store.Claim(ctx, r)
	c := claim{took: time.Since(begun), rows: len(result.Claimed)}
	for i := range result.Claimed {
		if result.Claimed[i].Envelope.Destination == "d0" {
			c.down++
		}
	}
	t.claims = append(t.claims, c)
	return result, err
}

// drill is the product's own run, with its claims and records, over rows that are not
// sent: each attempt ends at once. So claims are met as in a run, and nothing else is.
type drill struct {
	limit int                             // deliveries
	ends  func(work.Claimed) work.Outcome // of an attempt
	cap   int                             // requests in flight for one destination
}

func delivered(work.Claimed) work.Outcome { return work.Outcome{Class: work.OK, Status: 200} }

// downAtD0 refuses what goes to d0.
func downAtD0(c work.Claimed) work.Outcome {
	if c.Envelope.Destination == "d0" {
		return work.Outcome{Class: work.Unavailable, Status: 503}
	}
	return delivered(c)
}

// run makes it and says which claims there were.
func (r drill) run(ctx context.Context, l *lab, name string, d *stage.Database) ([]claim, gauge.Run, error) {
	store, err := pgstore.Open(ctx, pgstore.Options{URL: d.URL, MaxConns: 3})
	if err != nil {
		return nil, gauge.Run{}, err
	}
	defer func() { _ = store.Close() }()
	p := policy.Default()
	p.MaxInFlight = r.cap
	p.Circuit.Failures = 0
	watched := &timed{Store: store}
	before, err := l.postgres.WAL(ctx)
	if err != nil {
		return nil, gauge.Run{}, err
	}
	span := gauge.Begin(l.watch())
	sum, err := deliver.Once(ctx, watched, deliver.Options{
		Owner: "bench#1", Places: places, Limit: r.limit, Random: rand.Float64, Log: slog.New(slog.DiscardHandler),
		Endpoint: func(work.Destination) (deliver.Endpoint, error) {
			return deliver.Endpoint{Policy: p, Send: func(_ context.Context, c work.Claimed, _ []byte, _ time.Duration) work.Outcome {
				return r.ends(c)
			}}, nil
		},
	})
	run := gauge.Run{Cost: span.EndHere(), Units: float64(sum.Claimed)}
	if err != nil {
		return nil, run, err
	}
	after, err := l.postgres.WAL(ctx)
	run.WAL = after - before
	l.note(name, run)
	return watched.claims, run, err
}

// p50 is the median time of claims, in ms.
func p50(claims []claim) float64 {
	var took []float64
	for _, c := range claims {
		took = append(took, c.took.Seconds()*1000)
	}
	return gauge.Median(took)
}
