package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

const (
	idlePause  = 20 * time.Millisecond // long enough for the worker to record and to rest
	ringWithin = 10 * time.Second
)

// latency measures from before a producer's call of whctl.enqueue to the receipt, one at
// a time through a worker that has nothing else to do.
func (l *lab) latency(ctx context.Context) error {
	url, rings, stop, err := l.doorbell(ctx)
	if err != nil {
		return err
	}
	defer stop()
	d, err := l.base(ctx, 0, 0)
	if err != nil {
		return err
	}
	if err := d.Destinations(ctx, url, 1, 0); err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	defer end()
	worker := make(chan error, 1)
	go func() {
		_, err := stage.Run(l.program.Command(running, d, "deliver", "--quiet"))
		worker <- err
	}()
	p50 := gauge.Row{What: "enqueue to receipt through an idle worker, p50", Unit: "ms", Bar: gauge.AtMost(5, 0)}
	p99 := gauge.Row{What: "enqueue to receipt through an idle worker, p99", Unit: "ms", Bar: gauge.AtMost(25, 0)}
	n := l.scale(500, 100)
	for round := range l.rounds + 1 {
		span := gauge.Begin(l.watch())
		waits, err := ringOften(ctx, d, rings, n, worker)
		if err != nil {
			return err
		}
		cost := span.EndHere()
		if round == 0 {
			continue // it warms up
		}
		l.tell("latency: p50 %s, p99 %s, %.2f cores busy with other things (the worker's own among them)",
			gauge.Percentile(waits, 0.5), gauge.Percentile(waits, 0.99), cost.Other)
		add(&p50, gauge.Percentile(waits, 0.5), gauge.Run{Cost: cost})
		add(&p99, gauge.Percentile(waits, 0.99), gauge.Run{Cost: cost})
	}
	end()
	if err := <-worker; err != nil {
		return fmt.Errorf("the worker, stopped by SIGTERM, did not end with 0: %w", err)
	}
	l.table.Add(p50)
	l.table.Add(p99)
	return nil
}

// ringOften enqueues n deliveries, each when the one before has arrived and the worker
// has come to rest.
func ringOften(ctx context.Context, d *stage.Database, rings <-chan time.Time, n int, worker <-chan error) ([]time.Duration, error) {
	producer, err := d.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = producer.Close() }()
	var waits []time.Duration
	for range n {
		select {
		case <-time.After(idlePause):
		case err := <-worker:
			return nil, errors.Join(errors.New("the worker has ended"), err)
		}
		begun := time.Now()
		if _, err := producer.ExecContext(ctx, `SELECT whctl.enqueue('d0', 'bench.happened', gen_random_uuid()::text, '{"n":1}')`); err != nil {
			return nil, err
		}
		select {
		case at := <-rings:
			waits = append(waits, at.Sub(begun))
		case err := <-worker:
			return nil, errors.Join(errors.New("the worker has ended"), err)
		case <-time.After(ringWithin):
			return nil, fmt.Errorf("nothing arrived within %s", ringWithin)
		}
	}
	return waits, nil
}
