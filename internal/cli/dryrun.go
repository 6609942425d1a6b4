package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/sweep"
	"example.com/whctl/internal/work"
)

// countedExactly is up to how many candidates a preview counts one by one.
const countedExactly = 10_000_000

type dryRunOptions struct {
	reach    reach
	batch    int // 0: as the policy says
	estimate bool
}

func newDryRunCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dry-run",
		Short: "Look at what would be done",
		Long:  `Look at what would be done, and change nothing.`,
		Example: `  whctl dry-run cutoff
  whctl dry-run cutoff --policy delivered --older-than 30d -o json`,
		Args: noArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newDryRunCutoffCmd(a))
	return cmd
}

func newDryRunCutoffCmd(a *app) *cobra.Command {
	var o dryRunOptions
	cmd := &cobra.Command{
		Use:   "cutoff",
		Short: "Say what a sweep would remove",
		Long: `Say what a sweep with the same flags would remove: how much, how old, of which destinations, what is protected and
why, and how long it would take at the pace of the last batches. It asks with the sweep's own conditions, in one
read-only snapshot, and changes nothing; only that this version of the policy was looked at goes on record, where the
policy's own keep was asked about.

Candidates are the finished deliveries before the cutoff, in the policy's states. Those in protected.duplicate_window were
delivered so lately that a duplicate may yet come, and stay; all others would go. in_flight, not_terminal and dead
count what is as old and stays because it is not finished, or because the policy does not name it.

Up to ten million candidates are counted one by one. Above, where counting takes longer than a statement may, or
with --estimate, the numbers are the planner's, and say so.`,
		Example: `  whctl dry-run cutoff --policy delivered
  whctl dry-run cutoff --older-than 30d -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.reach.validate(cmd); err != nil {
				return err
			}
			return runDryRunCutoff(cmd.Context(), a, o)
		},
	}
	o.reach.flags(a, cmd)
	cmd.Flags().BoolVar(&o.estimate, "estimate", false, "do not count, ask the planner")
	return cmd
}

// cutoffPreview is what a cutoff would remove, with what the configuration says of it.
type cutoffPreview struct {
	work.Preview
	batch int
}

func runDryRunCutoff(ctx context.Context, a *app, o dryRunOptions) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(c *config.Config, s *pgstore.Store) error {
		policies, err := o.reach.selected(c)
		if err != nil {
			return err
		}
		var previews []cutoffPreview
		for _, p := range policies {
			preview, err := o.preview(ctx, a, c, s, p)
			if err != nil {
				return err
			}
			previews = append(previews, preview)
		}
		if a.global.quiet {
			return nil
		}
		if err := previewView().Write(a.io.Out, format, previews); err != nil {
			return err
		}
		if format.Format == "" || format.Format == render.Table || format.Format == render.Wide {
			for _, p := range previews {
				if err := render.Block(a.io.Out, p.sentence()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// preview looks, and puts on record that somebody did.
func (o dryRunOptions) preview(ctx context.Context, a *app, c *config.Config, s *pgstore.Store, p work.Retention) (cutoffPreview, error) {
	known, err := s.RetentionVersions(ctx, p.Name)
	if err != nil {
		return cutoffPreview{}, err
	}
	if err := sweep.Judge(p, known, true); err != nil {
		return cutoffPreview{}, err
	}
	request := work.PreviewRequest{Policy: p, Reach: o.reach.of(p, c.DuplicateWindow()), Current: p.Keep, Exact: countedExactly}
	if !o.reach.byHand() {
		against(&request, lastSwept(known))
	}
	if o.estimate {
		request.Exact = 0
	}
	found, err := s.Preview(ctx, request)
	if err != nil {
		return cutoffPreview{}, err
	}
	if !o.reach.byHand() {
		switch err := s.Previewed(ctx, p); {
		case errors.Is(err, work.ErrGrant), errors.Is(err, work.ErrUnreachable):
			a.warn("this look is not on record, so that sweep may ask for another one: %v", err)
		case err != nil:
			return cutoffPreview{}, err
		}
	}
	batch := p.Batch
	if o.batch > 0 {
		batch = o.batch
	}
	return cutoffPreview{Preview: found, batch: batch}, nil
}

// against compares a preview with the version that a sweep last ran by, if one did.
func against(r *work.PreviewRequest, last work.RetentionVersion) {
	if last.SweptAt.IsZero() {
		return
	}
	r.Current = last.Keep
	r.CurrentStates = slices.DeleteFunc([]work.State{work.Delivered, work.Dead, work.Cancelled, work.Discarded}, func(s work.State) bool { return !last.Covers(s) })
}

// lastSwept is the version that a sweep last ran by.
func lastSwept(known []work.RetentionVersion) (last work.RetentionVersion) {
	for _, v := range known {
		if v.SweptAt.After(last.SweptAt) {
			last = v
		}
	}
	return last
}

// batches is how many a sweep would take.
func (p cutoffPreview) batches() int64 {
	return (p.Removed() + int64(p.batch) - 1) / int64(p.batch)
}

// takes is how long a sweep would take at the pace of the last batches, resting as long
// as each took; 0: not known.
func (p cutoffPreview) takes() time.Duration {
	if p.PerSecond <= 0 {
		return 0
	}
	rows := p.Removed()
	if p.Target == work.TargetAttempts {
		rows = p.Attempts
	}
	return time.Duration(math.Min(2*float64(rows)/p.PerSecond*float64(time.Second), math.MaxInt64/2))
}

// sentence is the preview in plain words.
func (p cutoffPreview) sentence() string {
	about := ""
	if p.Estimated {
		about = "about "
	}
	text := fmt.Sprintf("%s would remove %s%s that finished before %s", p.Policy, about, plural(p.Removed(), "delivery", "deliveries"), render.Time(p.Cutoff))
	if p.Target == work.TargetAttempts {
		text = fmt.Sprintf("%s would remove all attempts but the last of %s%s that finished before %s", p.Policy, about, plural(p.Candidates, "delivery", "deliveries"), render.Time(p.Cutoff))
	}
	if p.Removed() > 0 {
		text += fmt.Sprintf(", the oldest from %s", render.Time(p.Oldest))
		if p.Target == work.TargetDeliveries {
			text += fmt.Sprintf(", in %s of at most %d, about %s", plural(p.batches(), "batch", "batches"), p.batch, humanize.IBytes(uint64(max(p.Bytes, 0))))
		}
	}
	text += "."
	if d := p.takes(); d > 0 && p.Removed() > 0 {
		text += fmt.Sprintf(" At the pace of the last batches that takes %s.", max(d.Round(time.Second), time.Second))
	}
	for _, part := range []struct {
		n   int64
		why string
	}{
		{p.Window, "delivered so lately that a duplicate may yet come"},
		{p.InFlight, "in flight"},
		{p.NotTerminal, "not finished"},
		{p.Dead, "dead, waiting for a person"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(" Protected: %s %s.", humanize.Comma(part.n), part.why)
		}
	}
	if delta := p.Candidates - p.CurrentCandidates; p.Current > 0 && delta != 0 {
		text += fmt.Sprintf(" That is %s against the %s of now.", signed(delta), config.FormatDuration(p.Current))
	}
	return text
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(n) + " " + many
}

func signed(n int64) string {
	if n > 0 {
		return "+" + humanize.Comma(n)
	}
	return humanize.Comma(n)
}
