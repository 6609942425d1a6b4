package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

// longAgo is when finished rows were delivered.
const longAgo = 30 * 24 * time.Hour

func (l *lab) history1M(ctx context.Context) error { return l.history(ctx, 1_000_000, "1 M", nil) }

func (l *lab) history10M(ctx context.Context) error {
	return l.history(ctx, 10_000_000, "10 M", gauge.AtMost(1.3, 1))
}

// history compares claims beside many finished rows with claims beside 100,000, in turns.
func (l *lab) history(ctx context.Context, finished int, text string, bar *gauge.Bar) error {
	const step = 20_000 // deliveries of one turn
	due := stage.Rows{N: step * (l.rounds + 1), Destinations: destinations, Size: payload, Age: hour}
	beside := func(n int) (*stage.Database, error) {
		return l.filled(ctx, destinations, 0, stage.Rows{N: n, Destinations: destinations, Size: payload, Finished: true, Age: longAgo}, due)
	}
	few, err := beside(100_000)
	if err != nil {
		return err
	}
	many, err := beside(finished)
	if err != nil {
		return err
	}
	row := gauge.Row{What: "claim p50 beside " + text + " finished ÷ beside 100 k", Bar: bar}
	dear := gauge.Row{What: "Postgres' processor time of a delivery, likewise"}
	turn := drill{limit: step, ends: delivered, cap: 32}
	for round := range l.rounds + 1 {
		a, runA, err := turn.run(ctx, l, "not sent, beside 100 k finished", few)
		if err != nil {
			return err
		}
		b, runB, err := turn.run(ctx, l, "not sent, beside "+text+" finished", many)
		if err != nil {
			return err
		}
		if round == 0 {
			continue // it brings the pages into memory
		}
		other := max(runA.Other, runB.Other)
		row.Values, row.Other = append(row.Values, p50(b)/p50(a)), append(row.Other, other)
		dear.Values = append(dear.Values, runB.Postgres.Seconds()/runB.Units/(runA.Postgres.Seconds()/runA.Units))
		dear.Other = append(dear.Other, other)
	}
	l.table.Add(row)
	l.table.Add(dear)
	return nil
}

func (l *lab) deadTuples(ctx context.Context) error {
	return l.drain(ctx, "no vacuum", gauge.AtMost(1.3, 1), func(context.Context, *stage.Database) (func() error, error) {
		return func() error { return nil }, nil
	})
}

func (l *lab) oldSnapshot(ctx context.Context) error {
	return l.drain(ctx, "an old snapshot held", gauge.AtMost(1.5, 1), func(ctx context.Context, d *stage.Database) (func() error, error) {
		return d.HoldSnapshot(ctx)
	})
}

// drain delivers a million rows and compares the claims of the last fifth of them with
// those of the first: what is finished leaves dead rows, and nothing clears them away.
func (l *lab) drain(ctx context.Context, text string, bar *gauge.Bar, hold func(context.Context, *stage.Database) (func() error, error)) error {
	n := l.scale(1_000_000, 100_000)
	due, err := l.filled(ctx, destinations, 0, stage.Rows{N: n, Destinations: destinations, Size: payload, Age: hour})
	if err != nil {
		return err
	}
	if err := due.KeepDead(ctx); err != nil {
		return err
	}
	row := gauge.Row{What: fmt.Sprintf("claim p50, last fifth of %d deliveries ÷ first, %s", n, text), Bar: bar}
	for range l.rounds {
		err := l.onCopy(ctx, due, func(d *stage.Database) error {
			release, err := hold(ctx, d)
			if err != nil {
				return err
			}
			claims, run, err := drill{limit: n, ends: delivered, cap: 32}.run(ctx, l, "not sent, "+text, d)
			if err := errors.Join(err, release()); err != nil {
				return err
			}
			first, last := fifths(claims, n)
			row.Values, row.Other = append(row.Values, p50(last)/p50(first)), append(row.Other, run.Other)
			return nil
		})
		if err != nil {
			return err
		}
	}
	l.table.Add(row)
	return nil
}

// fifths are the claims that took the first and the last fifth of n rows.
func fifths(claims []claim, n int) (first, last []claim) {
	taken := 0
	for _, c := range claims {
		switch {
		case taken < n/5:
			first = append(first, c)
		case taken >= n-n/5:
			last = append(last, c)
		}
		taken += c.rows
	}
	return first, last
}
