package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/telemetry"
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
			return nil, err
		}
	}
	if o.metricsAddr != "" {
		if t.server, err = t.metrics.Serve(ctx, o.metricsAddr); err != nil {
			return nil, err
		}
		log.Info("metrics are served", "address", t.server.Address)
	}
	if t.file != nil && !o.once {
		ctx, t.stop = context.WithCancel(ctx)
		t.writing.Go(func() { t.file.WriteUntil(ctx, t.unwritten) })
	}
	return t, nil
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
