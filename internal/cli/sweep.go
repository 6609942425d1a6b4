package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/archive"
	"example.com/whctl/internal/config"
	"example.com/whctl/internal/console"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/sweep"
	"example.com/whctl/internal/work"
)

var _ sweep.Store = (*pgstore.Store)(nil)

// sweepUsualTime is the bound of a sweep that was given none.
const sweepUsualTime = 10 * time.Minute

type sweepOptions struct {
	reach      reach
	maxBatches int
	maxTime    time.Duration
	batch      int
	pause      time.Duration
	noOverlap  bool
	dryRun     bool
	maxLag     time.Duration
	maxXminAge time.Duration
	stopFile   string
	detailed   bool
}

func newSweepCmd(a *app) *cobra.Command {
	var o sweepOptions
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove what is finished and old",
		Long: `Remove finished deliveries that are older than their retention policy keeps them, with envelopes and attempts, in
bounded batches, the oldest first. Each batch is one transaction, with one row in the ledger. The cutoff is fixed when a
sweep begins, from the database's clock; a sweep that was stopped is carried on by the next run. Any number of runs
may work at the same time, and share the batches. A day is 24 hours, whatever the zone.

Only states that the policy names go; what is scheduled or leased never does. With --older-than or --before, and
without --policy, what is dead stays as well; where no policy is for them, delivered, cancelled and discarded deliveries
go, under the name finished. What was delivered so lately that a duplicate of it may yet come (retention.redrive_window and the longest
retries) is left alone in any case, and so is what another transaction holds at that moment.

Without --max-batches and --max-time a run ends after 10m. After each batch it rests as long as the batch took, or
for --pause. A batch that takes longer than half a second makes the next one smaller. While a replica lags by
more than --max-lag, or a transaction holds its snapshot for more than --max-xmin-age, the run waits, within its
time; when --stop-file exists, it ends. The summary says what ended it: drained, max_batches, max_time, max_lag,
max_xmin_age, stop_file or signal.

A policy that was changed must have its version raised (exit 78 otherwise). One that keeps for less time,
or is about more states, than the version that was swept by last must have been looked at since with whctl dry-run
cutoff (exit 3 otherwise).`,
		Example: `  whctl sweep --max-time 5m --quiet
  whctl sweep --policy delivered --older-than 90d --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			if o.dryRun {
				return runDryRunCutoff(cmd.Context(), a, dryRunOptions{reach: o.reach, batch: o.batch})
			}
			return runSweep(cmd.Context(), a, o)
		},
	}
	o.reach.flags(a, cmd)
	f := cmd.Flags()
	f.IntVar(&o.maxBatches, "max-batches", 0, "remove at most `N` batches, over all policies")
	f.Var((*durationFlag)(&o.maxTime), "max-time", "begin no batch after `DURATION`, such as 5m (default: 10m, if there is no --max-batches)")
	f.IntVar(&o.batch, "batch-size", 0, "deliveries in a batch, at most "+strconv.Itoa(config.MaxBatch)+" (default: as the policy says, 1000)")
	f.Var((*durationFlag)(&o.pause), "pause", "rest for `DURATION` after each batch (default: as long as the batch took)")
	f.BoolVar(&o.noOverlap, "no-overlap", false, "exit 75 when another run is at the same sweep")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what would go, as dry-run cutoff does")
	f.Var((*durationFlag)(&o.maxLag), "max-lag", "wait while a replica lags by more than `DURATION`")
	f.Var((*durationFlag)(&o.maxXminAge), "max-xmin-age", "wait while a transaction has held its snapshot for more than `DURATION`")
	f.StringVar(&o.stopFile, "stop-file", "", "end when `FILE` exists")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "exit 10 when it stopped at its own limit with work left")
	cmd.AddCommand(newSweepHistoryCmd(a), newSweepVerifyCmd(a), newSweepDiffCmd(a), newSweepArchiveCmd(a))
	return cmd
}

func (o *sweepOptions) validate(cmd *cobra.Command) error {
	if err := o.reach.validate(cmd); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	switch {
	case changed("batch-size") && (o.batch < 1 || o.batch > config.MaxBatch):
		return usage("--batch-size %d: want 1 to %d", o.batch, config.MaxBatch)
	case changed("max-batches") && o.maxBatches < 1:
		return usage("--max-batches %d: want at least 1", o.maxBatches)
	case changed("max-time") && o.maxTime <= 0:
		return usage("--max-time: want more than 0")
	case changed("max-lag") && o.maxLag <= 0:
		return usage("--max-lag: want more than 0")
	case changed("max-xmin-age") && o.maxXminAge <= 0:
		return usage("--max-xmin-age: want more than 0")
	case changed("stop-file") && o.stopFile == "":
		return usage("--stop-file: an empty name means no file")
	case o.pause < 0:
		return usage("--pause: want 0 or more")
	}
	if !changed("pause") {
		o.pause = -1
	}
	if !changed("max-time") && !changed("max-batches") {
		o.maxTime = sweepUsualTime
	}
	return nil
}

func runSweep(ctx context.Context, a *app, o sweepOptions) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	var sums []sweep.Summary
	err = a.withStore(ctx, func(c *config.Config, s *pgstore.Store) error {
		policies, err := o.reach.selected(c)
		if err != nil {
			return err
		}
		owner, err := leaseOwner(processLabel())
		if err != nil {
			return err
		}
		var progress *console.Progress
		defer func() { progress.Done() }()
		run := sweep.Options{
			Owner: owner, Policies: policies,
			Reach:      func(p work.Retention) work.Reach { return o.reach.of(p, c.DuplicateWindow()) },
			MaxBatches: o.maxBatches, MaxTime: o.maxTime, Batch: o.batch, Pause: o.pause, Alone: o.noOverlap,
			MaxLag: o.maxLag, MaxXminAge: o.maxXminAge, Stopped: o.stopped, Archive: openArchive(c), Log: log,
			Progress: func(s work.Swept) { progress.Add(s.Looked) },
		}
		if a.io.ErrTTY { // else counting is for nobody
			run.Expect = func(n int64) { progress = a.io.Progress("sweeping", n) }
		}
		sums, err = sweep.Run(ctx, s, run)
		return err
	})
	if len(sums) > 0 && (err != nil || !a.global.quiet) {
		if printed := sweepView().Write(a.io.Out, format, sums); err == nil {
			err = printed
		}
	}
	if err == nil {
		err = o.verdict(ctx, sums)
	}
	return err
}

// stopped says that the stop file is there.
func (o *sweepOptions) stopped() (bool, error) {
	if o.stopFile == "" {
		return false, nil
	}
	_, err := os.Lstat(o.stopFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the stop file: %w", err)
	}
	return true, nil
}

// verdict is how the run ends, once its summary has been printed.
func (o *sweepOptions) verdict(ctx context.Context, sums []sweep.Summary) error {
	more := false
	for _, s := range sums {
		if s.StoppedBy == sweep.Signal {
			return context.Cause(ctx)
		}
		more = more || s.StoppedBy != sweep.Drained && (s.Remaining == nil || *s.Remaining > 0)
	}
	if more && o.detailed {
		return silent(exitMore)
	}
	return nil
}

// openArchive opens the archive of a policy that has one.
func openArchive(c *config.Config) func(work.Retention, work.Sweep) (sweep.Archive, error) {
	return func(p work.Retention, s work.Sweep) (sweep.Archive, error) {
		return archive.NewWriter(archive.Run{Dir: c.Retention.Policies[p.Name].ArchiveDir, Policy: p.Name, Version: p.Version, Cutoff: s.Cutoff})
	}
}
