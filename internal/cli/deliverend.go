package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// printSummary prints what a run did, unless it was to be quiet and nothing went wrong.
func (a *app) printSummary(format render.Options, sum deliver.Summary, err error) error {
	if sum.WorkerID == "" || a.global.quiet && err == nil {
		return nil
	}
	return render.One(a.io.Out, format, summaryView(sum), sum)
}

// verdict is how the run ends, once it has been recorded and printed.
func (o deliverOptions) verdict(ctx context.Context, sum deliver.Summary) error {
	switch {
	case sum.StoppedBy == deliver.Signal:
		return context.Cause(ctx)
	case errors.Is(sum.Held, work.ErrUnreachable), errors.Is(sum.Held, work.ErrGrant): // of a guard
		return sum.Held
	case sum.Held != nil:
		return fmt.Errorf("%w: %w", work.ErrConfig, sum.Held)
	case sum.Unrecorded > 0:
		return fmt.Errorf("%d results could not be recorded; their attempts will be closed as lost", sum.Unrecorded)
	case o.failOn == "dead" && sum.Dead > 0, o.failOn == "retry" && sum.Dead+sum.Retried > 0:
		return &exitError{exitRefused, fmt.Errorf("%d dead, %d to be retried (--fail-on %s); see: whctl dlq list", sum.Dead, sum.Retried, o.failOn)}
	case o.detailed && sum.DueRemaining != nil && *sum.DueRemaining > 0 && (sum.StoppedBy == deliver.Limit || sum.StoppedBy == deliver.MaxTime):
		return silent(exitMore)
	}
	return nil
}

// softly makes 0 of a worker's end that SIGTERM asked for: that is how a worker ends. What
// went wrong after it had begun stays an error; before, there was nothing to lose.
func (o deliverOptions) softly(ctx context.Context, err error, begun bool) error {
	var sig signalled
	if o.once || err == nil || !errors.As(context.Cause(ctx), &sig) || sig.signal != syscall.SIGTERM {
		return err
	}
	if begun && !errors.As(err, &sig) && (!errors.Is(err, context.Canceled) || errors.Is(err, work.ErrUnknown)) {
		return err
	}
	return nil
}
