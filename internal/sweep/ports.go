package sweep

import (
	"context"
	"log/slog"
	"time"

	"example.com/whctl/internal/work"
)

// Store keeps the deliveries and the ledger.
type Store interface {
	BeginSweep(ctx context.Context, r work.SweepRequest) (work.Sweep, error)
	SweepBatch(ctx context.Context, r work.SweepBatch) (work.Swept, error)
	EndSweep(ctx context.Context, s work.Sweep, owner string, done bool) error
	Rest(ctx context.Context, s work.Sweep, most int64) (work.Rest, error)
	Brakes(ctx context.Context) (work.Brakes, error)
}

// Archive takes in the rows of one policy's batches before they go.
type Archive interface {
	Append(batchKey string, rows []work.Archived) (work.ArchiveMark, error)
	Close() error
}

// Options are the bounds and manners of a run.
type Options struct {
	Owner    string
	Policies []work.Retention
	// Reach of each policy: what the policy keeps, or an age or instant given by hand.
	Reach      func(work.Retention) work.Reach
	MaxBatches int           // over all policies; 0: no bound
	MaxTime    time.Duration // no batch begins after it; 0: no bound
	Batch      int           // deliveries in a batch; 0: as the policy says
	Pause      time.Duration // between batches; negative: as long as the batch took
	Alone      bool          // not beside another run at the same sweep
	MaxLag     time.Duration // of replicas; 0: not looked at
	MaxXminAge time.Duration // of the oldest snapshot; 0: not looked at
	// Stopped says that somebody asked for a stop, by a file; nil: nobody can.
	Stopped func() (bool, error)
	// Archive opens the archive of a policy; its error ends the run before anything of that policy is removed.
	Archive func(p work.Retention, s work.Sweep) (Archive, error)
	Log     *slog.Logger
	// Expect is told how many deliveries the run has before it, and Progress of each batch;
	// nil: nobody looks.
	Expect   func(deliveries int64)
	Progress func(work.Swept)
}

// StoppedBy says what ended a run at a policy.
type StoppedBy string

// What ends a run.
const (
	Drained    StoppedBy = "drained"
	MaxBatches StoppedBy = "max_batches"
	MaxTime    StoppedBy = "max_time"
	Lag        StoppedBy = "max_lag"
	XminAge    StoppedBy = "max_xmin_age"
	StopFile   StoppedBy = "stop_file"
	Signal     StoppedBy = "signal"
	Failed     StoppedBy = "error"
)

// Summary is what a run did by one policy.
type Summary struct {
	Policy      string
	Version     int
	Target      work.Target
	Cutoff      time.Time
	StartedAt   time.Time // by the database's clock
	Batches     int       // of this run that removed something
	Deliveries  int64
	Attempts    int64
	Skipped     int64 // held by other transactions when their turn came
	Window      int64 // delivered so lately that a duplicate may yet come
	Archived    int64 // bytes
	AlreadyDone int   // batches of the same sweep that were in the ledger before
	Remaining   *int64
	StoppedBy   StoppedBy
	Took        time.Duration // of the batches alone, without pauses
}
