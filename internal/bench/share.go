package main

import (
	"context"
	"fmt"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/peer"
	"example.com/whctl/internal/bench/stage"
)

// slow compares runs over the same due rows of 100 destinations: all of them answer at
// once, or one of them after 2 s. The rate is that of the others, from their first
// request to their last, as the receiver sees them; the run is stopped then.
func (l *lab) slow(ctx context.Context) error {
	n := l.scale(100_000, 20_000)
	rows := stage.Rows{N: n, Destinations: destinations, Size: payload, Age: hour}
	without, err := l.filled(ctx, destinations, 0, rows)
	if err != nil {
		return err
	}
	with, err := l.filled(ctx, destinations, 1, rows)
	if err != nil {
		return err
	}
	var a, b []gauge.Run
	for range l.rounds {
		run, err := l.untilSeen(ctx, without, n)
		if err != nil {
			return err
		}
		l.note("100 fast destinations", run)
		a = append(a, run)
		if run, err = l.untilSeen(ctx, with, n-n/destinations); err != nil {
			return err
		}
		l.note("99 fast ones beside one of 2 s", run)
		b = append(b, run)
	}
	l.ratio("rate with one of 100 destinations at 2 s ÷ without", gauge.AtLeast(0.8, 0.95), b, a, gauge.Run.PerSecond)
	return nil
}

// untilSeen runs deliver --once until the receiver has seen n requests that it answers
// at once, and stops it then.
func (l *lab) untilSeen(ctx context.Context, of *stage.Database, n int) (run gauge.Run, err error) {
	err = l.onCopy(ctx, of, func(d *stage.Database) error {
		if err := l.receiver.Forget(ctx); err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		seen := make(chan peer.Seen, 1)
		go func() {
			seen <- l.await(running, n)
			stop()
		}()
		var failed error
		run, _, failed = l.spend(ctx, n, l.program.Command(running, d, "deliver", "--once", "--quiet"))
		stop()
		s := <-seen
		if s.Requests < int64(n) {
			return fmt.Errorf("the receiver saw %d requests, want %d: %w", s.Requests, n, failed)
		}
		run.Wall = time.Duration(s.Last - s.First)
		return nil
	})
	return run, err
}

// await looks until the receiver has seen n requests, or ctx ends.
func (l *lab) await(ctx context.Context, n int) (seen peer.Seen) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for seen.Requests < int64(n) {
		select {
		case <-ctx.Done():
			return seen
		case <-tick.C:
			if s, err := l.receiver.Seen(ctx); err == nil {
				seen = s
			}
		}
	}
	return seen
}

// workers compares one run with four at the same time over the same due rows. The time
// is that of the last one. There are so many rows that starting and ending four programs
// weighs little.
func (l *lab) workers(ctx context.Context) error {
	n := l.scale(400_000, 20_000)
	due, err := l.filled(ctx, destinations, 0, stage.Rows{N: n, Destinations: destinations, Size: payload, Age: hour})
	if err != nil {
		return err
	}
	var one, four []gauge.Run
	for range l.rounds {
		run, err := l.deliverAll(ctx, due, n, 1)
		if err != nil {
			return err
		}
		l.note("one worker", run)
		one = append(one, run)
		if run, err = l.deliverAll(ctx, due, n, 4); err != nil {
			return err
		}
		l.note("four workers", run)
		four = append(four, run)
	}
	l.ratio("four workers ÷ one, on these cores", gauge.AtLeast(0.95, 0), four, one, gauge.Run.PerSecond)
	return nil
}
