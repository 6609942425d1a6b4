package main

import (
	"context"
	"fmt"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

// fair compares claims of many destinations, one of which is down with a million of the
// oldest due rows, with claims of a single destination: the same number of rows from one
// end of the index, as a queue without destinations takes them.
func (l *lab) fair(ctx context.Context) error {
	many, backlog := l.scale(10_000, 1_000), l.scale(1_000_000, 100_000)
	const step = 20_000 // deliveries of one turn
	dead := stage.Rows{N: backlog, Destinations: 1, Size: payload, Age: 48 * hour}
	rest := stage.Rows{N: step * (l.rounds + 1), Destinations: many, Size: payload, Age: hour}
	shared, err := l.filled(ctx, many, 0, dead, rest)
	if err != nil {
		return err
	}
	plain, err := l.filled(ctx, 1, 0, dead)
	if err != nil {
		return err
	}
	ratio := gauge.Row{What: fmt.Sprintf("fair claim, %d destinations, one with %d due ÷ plain claim", many, backlog), Bar: gauge.AtMost(1.6, 1.2)}
	healthy := gauge.Row{What: "share of the other destinations in those claims", Bar: gauge.AtLeast(0.95, 1)}
	for range l.rounds {
		a, runA, err := drill{limit: step, ends: delivered, cap: places}.run(ctx, l, "not sent, plain", plain)
		if err != nil {
			return err
		}
		b, runB, err := drill{limit: step, ends: downAtD0, cap: 32}.run(ctx, l, "not sent, fair", shared)
		if err != nil {
			return err
		}
		rows, down := 0, 0
		for _, c := range b {
			rows += c.rows
			down += c.down
		}
		other := max(runA.Other, runB.Other)
		ratio.Values, ratio.Other = append(ratio.Values, p50(b)/p50(a)), append(ratio.Other, other)
		healthy.Values, healthy.Other = append(healthy.Values, 1-float64(down)/float64(rows)), append(healthy.Other, other)
	}
	l.table.Add(ratio)
	l.table.Add(healthy)
	return nil
}
