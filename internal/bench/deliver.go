package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/peer"
	"example.com/whctl/internal/bench/stage"
)

const (
	destinations    = 100
	payload         = 512 // bytes
	ceilingInFlight = 64
	hour            = time.Hour
)

// deliver compares whole runs over the same number of due rows: whctl, River over either
// driver, and the bare client.
func (l *lab) deliver(ctx context.Context) error {
	n := l.scale(100_000, 20_000)
	ours, err := l.filled(ctx, destinations, 0, stage.Rows{N: n, Destinations: destinations, Size: payload, Age: hour})
	if err != nil {
		return err
	}
	theirs, err := l.riverTable(ctx, n)
	if err != nil {
		return err
	}
	var ceiling, whctl, pgx, pq []gauge.Run
	for range l.rounds {
		run, err := l.play(ctx, "post", peer.Ceiling{To: l.receiver.URL, N: 2 * n, InFlight: ceilingInFlight, Size: payload})
		if err != nil {
			return err
		}
		l.note("HTTP alone, 64 in flight", run)
		ceiling = append(ceiling, run)

		if run, err = l.deliverAll(ctx, ours, n, 1); err != nil {
			return err
		}
		l.note("whctl deliver --once", run)
		whctl = append(whctl, run)

		if run, err = l.river(ctx, theirs, n, false); err != nil {
			return err
		}
		l.note("River, pgx", run)
		pgx = append(pgx, run)

		if run, err = l.river(ctx, theirs, n, true); err != nil {
			return err
		}
		l.note("River, lib/pq", run)
		pq = append(pq, run)
	}
	l.ratio("deliver --once ÷ River on pgx", gauge.AtLeast(1.5, 2.2), whctl, pgx, gauge.Run.PerSecond)
	l.ratio("deliver --once ÷ River on lib/pq", gauge.AtLeast(1.7, 2.6), whctl, pq, gauge.Run.PerSecond)
	l.ratio("deliver --once ÷ HTTP alone", gauge.AtLeast(0.42, 0.65), whctl, ceiling, gauge.Run.PerSecond)
	l.ratio("processor time of a delivery ÷ of a job of River on pgx", nil, whctl, pgx, cpuEach)
	l.ratio("peak RSS ÷ River's on pgx", gauge.AtMost(0.35, 0), whctl, pgx, func(r gauge.Run) float64 { return float64(r.Peak) })
	l.each("WAL of a delivery", "B", gauge.AtMost(1100, 800), whctl, func(r gauge.Run) float64 { return r.WAL / r.Units })
	return nil
}

// cpuEach is the processor time of everybody for one unit.
func cpuEach(r gauge.Run) float64 { return (r.Program + r.Postgres + r.Receiver).Seconds() / r.Units }

// deliverAll runs deliver --once, so many at the same time, on a copy of a database with
// n due rows.
func (l *lab) deliverAll(ctx context.Context, of *stage.Database, n, workers int) (run gauge.Run, err error) {
	err = l.onCopy(ctx, of, func(d *stage.Database) error {
		var cmds []*exec.Cmd
		for range workers {
			cmds = append(cmds, l.program.Command(ctx, d, "deliver", "--once", "-o", "json"))
		}
		var ended []stage.Ended
		if run, ended, err = l.spend(ctx, n, cmds...); err != nil {
			return err
		}
		delivered := 0
		for _, e := range ended {
			var sum struct{ Delivered int }
			if err := json.Unmarshal(e.Out, &sum); err != nil {
				return err
			}
			delivered += sum.Delivered
		}
		if delivered != n {
			return fmt.Errorf("%d delivered, want %d: %s", delivered, n, ended[0].Out)
		}
		return nil
	})
	return run, err
}

func (l *lab) riverTable(ctx context.Context, n int) (*stage.Database, error) {
	l.tell("filling in %d jobs of River", n)
	d, err := l.postgres.Create(ctx)
	if err != nil {
		return nil, err
	}
	if err := (peer.River{DB: d.URL, Jobs: n, Destinations: destinations, Size: payload}).Seed(ctx); err != nil {
		return nil, err
	}
	return d, d.Settle(ctx)
}

func (l *lab) river(ctx context.Context, of *stage.Database, n int, pq bool) (run gauge.Run, err error) {
	err = l.onCopy(ctx, of, func(d *stage.Database) error {
		run, err = l.play(ctx, "river", peer.River{DB: d.URL, PQ: pq, To: l.receiver.URL, Jobs: n, Destinations: destinations})
		return err
	})
	return run, err
}

// ratio adds what a has of something divided by what b has of it in the same round.
func (l *lab) ratio(what string, bar *gauge.Bar, a, b []gauge.Run, of func(gauge.Run) float64) {
	row := gauge.Row{What: what, Bar: bar}
	for i := range a {
		row.Values = append(row.Values, of(a[i])/of(b[i]))
		row.Other = append(row.Other, max(a[i].Other, b[i].Other))
	}
	l.table.Add(row)
}

// each adds what each run has of something.
func (l *lab) each(what, unit string, bar *gauge.Bar, runs []gauge.Run, of func(gauge.Run) float64) {
	row := gauge.Row{What: what, Unit: unit, Bar: bar}
	for _, r := range runs {
		row.Values, row.Other = append(row.Values, of(r)), append(row.Other, r.Other)
	}
	l.table.Add(row)
}
