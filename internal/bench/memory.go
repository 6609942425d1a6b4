package main

import (
	"context"
	"fmt"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

const (
	largeRows  = 1000
	largeBytes = 64 << 10
)

// memory measures the peak of a run over 1,000 payloads of 64 KB.
func (l *lab) memory(ctx context.Context) error {
	d, err := l.base(ctx, destinations, 0)
	if err != nil {
		return err
	}
	if err := d.KeepPayloadsRaw(ctx); err != nil {
		return err
	}
	if err := d.Fill(ctx, stage.Rows{N: largeRows, Destinations: destinations, Size: largeBytes, Age: hour}); err != nil {
		return err
	}
	if err := d.Settle(ctx); err != nil {
		return err
	}
	var runs []gauge.Run
	for range l.rounds {
		run, err := l.deliverAll(ctx, d, largeRows, 1)
		if err != nil {
			return err
		}
		l.note(fmt.Sprintf("%d payloads of 64 KB", largeRows), run)
		runs = append(runs, run)
	}
	l.each("peak RSS, 1,000 payloads of 64 KB", "MB", gauge.AtMost(48, 0), runs, func(r gauge.Run) float64 { return float64(r.Peak) / 1e6 })
	return nil
}
