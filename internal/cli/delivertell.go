package cli

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/telemetry"
	"example.com/whctl/internal/work"
)

// telling is what a run tells a monitoring system; all of it may be nothing.
type telling struct {
	metrics *telemetry.Metrics
	file    *telemetry.File
	server  *telemetry.Server
	log     *slog.Logger
	stop    context.CancelFunc
	writing sync.WaitGroup
}

// startTelling begins before the database is reached for, so that an address or a file
// that cannot be used is known before anything is claimed.
func (o deliverOptions) startTelling(ctx context.Context, version string, log *slog.Logger) (*telling, error) {
	t := &telling{log: log, stop: func() {}}
	if o.metricsAddr == "" && o.metricsFile == "" {
		return t, nil
	}
	t.metrics = telemetry.New(version, o.once)
	var err error
	if o.metricsFile != "" {
		if t.file, err = t.metrics.OpenFile(o.metricsFile); err != nil {
			return nil, untold(err)
		}
	}
	if o.metricsAddr != "" {
		if t.server, err = t.metrics.Serve(ctx, o.metricsAddr); err != nil {
			return nil, untold(err)
		}
		log.Info("metrics are served", "address", t.server.Address)
	}
	if t.file != nil && !o.once {
		ctx, t.stop = context.WithCancel(ctx)
		t.writing.Go(func() { t.file.WriteUntil(ctx, t.unwritten) })
	}
	return t, nil
}

// comesRight are reasons that go away by themselves: another program still has the port,
// the machine does not have the address yet, the disk is full.
var comesRight = [...]error{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.ENOSPC, syscall.EDQUOT}

// untold is how a run ends whose metrics have nowhere to go. Where that may be otherwise
// in a moment it is no fault of the configuration: a scheduler that takes 78 for a reason
// not to try again would leave the worker down.
func untold(err error) error {
	for _, reason := range comesRight {
		if errors.Is(err, reason) {
			return &exitError{exitFailed, errors.New(bare(err, work.ErrConfig))}
		}
	}
	return err
}

// observer is for the run; nil where nobody asks.
func (t *telling) observer() deliver.Observer {
	if t.metrics == nil {
		return nil
	}
	return t.metrics
}

// finished takes in what is known at the end.
func (t *telling) finished(sum deliver.Summary, err error) {
	if t.metrics == nil {
		return
	}
	if sum.DueRemaining != nil {
		var oldest time.Duration
		if sum.OldestDueAge != nil {
			oldest = *sum.OldestDueAge
		}
		t.metrics.Backlog(*sum.DueRemaining, oldest)
	}
	if err == nil {
		t.metrics.Succeeded(sum.FinishedAt)
	}
}

// end writes the file once more, also after a failure, and lets go of the address. A run
// that did its work does not fail over it.
func (t *telling) end() {
	t.stop()
	t.writing.Wait()
	if t.file != nil {
		if err := t.file.Write(); err != nil {
			t.unwritten(err)
		}
	}
	if t.server != nil {
		if err := t.server.Close(); err != nil {
			t.log.Warn("the end of the metrics' server", "error", err)
		}
	}
}

func (t *telling) unwritten(err error) {
	t.log.Warn("metrics could not be written", "error", err)
}
