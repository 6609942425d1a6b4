package cli

import (
	"context"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/telemetry"
	"example.com/whctl/internal/work"
)

var _ deliver.Observer = (*telemetry.Metrics)(nil)

// validateMode refuses what only one of the two ways to deliver can do.
func (o *deliverOptions) validateMode(cmd *cobra.Command) error {
	if o.once && o.metricsAddr != "" {
		return usage("--metrics-addr is for a worker: a run with --once is over before it is scraped; use --metrics-file")
	}
	for _, name := range []string{"limit", "max-time", "fail-on", "detailed-exitcode"} {
		if !o.once && cmd.Flags().Changed(name) {
			return usage("--%s needs --once: without it deliver is a worker, which goes on until it is stopped", name)
		}
	}
	if cmd.Flags().Changed("metrics-addr") {
		if err := telemetry.CheckAddress(o.metricsAddr); err != nil {
			return usage("--metrics-addr %s", bare(err, work.ErrUsage))
		}
	}
	if cmd.Flags().Changed("metrics-file") && o.metricsFile == "" {
		return usage("--metrics-file: want the name of a file")
	}
	return nil
}

// deliver is one bounded run, or a worker's life.
func (o deliverOptions) deliver(ctx context.Context, reach pgstore.Options, store *pgstore.Store, work deliver.Options) (deliver.Summary, error) {
	if o.once {
		return deliver.Once(ctx, store, work)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ear, err := pgstore.Listen(ctx, reach, work.Log)
	if err != nil {
		cancel(nil)
		return deliver.Summary{}, err
	}
	defer func() {
		cancel(nil)
		<-ear.Ended()
	}()
	work.Wake = ear.Wake
	return deliver.Serve(ctx, store, work)
}
