package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/sweep"
	"example.com/whctl/internal/work"
)

// historyLimit is how many batches are listed where nothing else is said.
const historyLimit = 100

func newSweepHistoryCmd(a *app) *cobra.Command {
	var q pgstore.LedgerQuery
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the ledger of sweeps, the last batch first",
		Long: `List the ledger of sweeps, the last batch first. Each batch that removed something has one row, stored in the
transaction that removed it; what a killed run did not store is not there and was not removed.`,
		Example: `  whctl sweep history
  whctl sweep history --policy delivered --limit 1000 -o jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 {
				return usage("--limit %d: want at least 1", q.Limit)
			}
			return runSweepHistory(cmd.Context(), a, q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Policy, "policy", "", "only this retention policy `NAME`")
	f.IntVar(&q.Limit, "limit", historyLimit, "list at most `N` batches")
	// The flag exists, and has no words yet.
	_ = cmd.RegisterFlagCompletionFunc("policy", a.retentionWords)
	return cmd
}

func runSweepHistory(ctx context.Context, a *app, q pgstore.LedgerQuery) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		rows, err := s.Ledger(ctx, q)
		if err != nil {
			return err
		}
		if len(rows) == 0 && a.io.ErrTTY && !a.global.quiet {
			a.warn("the ledger has no batch: nothing was removed yet")
		}
		return ledgerView().Write(a.io.Out, format, rows)
	})
}

func newSweepVerifyCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Recount the ledger of sweeps against the tables",
		Long: `Recount the ledger of sweeps against itself and against the tables, in one snapshot, and change nothing: the
batches of each sweep are numbered without a gap and add up to what the sweep counted; what a sweep has passed is gone,
but for what it skipped; no envelope or attempt is left without its delivery. Each difference is one row, with its kind
(gap, sum, stray, left, orphan), and the exit code is then 3.`,
		Example: `  whctl sweep verify
  whctl sweep verify -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSweepVerify(cmd.Context(), a) },
	}
}

// faultJSON is the contract of a difference.
type faultJSON struct {
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

func runSweepVerify(ctx context.Context, a *app) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		faults, totals, err := s.VerifyLedger(ctx)
		if err != nil {
			return err
		}
		if len(faults) > 0 || format.Format != "" && format.Format != render.Table && format.Format != render.Wide {
			if err := faultView().Write(a.io.Out, format, faults); err != nil {
				return err
			}
		} else if !a.global.quiet {
			text := fmt.Sprintf("The ledger agrees with the tables: %d batches, %d deliveries, %d attempts.", totals.Batches, totals.Deliveries, totals.Attempts)
			if err := render.Block(a.io.Out, text); err != nil {
				return err
			}
		}
		if len(faults) > 0 {
			return fmt.Errorf("%w: the ledger of sweeps and the tables differ in %d places", work.ErrRefused, len(faults))
		}
		return nil
	})
}

func faultView() render.View[work.LedgerFault] {
	return render.View[work.LedgerFault]{
		Columns: []render.Column[work.LedgerFault]{
			{Header: "KIND", Fixed: true, Value: func(f work.LedgerFault) string { return f.Kind }},
			{Header: "KEY", Fixed: true, Value: func(f work.LedgerFault) string { return f.Key }},
			{Header: "MESSAGE", Value: func(f work.LedgerFault) string { return f.Message }},
		},
		JSON: func(f work.LedgerFault) any { return faultJSON(f) },
		Name: func(f work.LedgerFault) string { return f.Key },
	}
}

func newSweepDiffCmd(a *app) *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what changed retention policies newly expose",
		Long: `Show for each configured retention policy what it keeps, what the version kept that was last swept by, and how many
deliveries the change newly exposes to a sweep (fewer than 0: spares). Nothing is changed, and nothing put on record: a
policy that keeps for less time has to be looked at with whctl dry-run cutoff before sweep goes by it.`,
		Example: `  whctl sweep diff
  whctl sweep diff --policy delivered -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSweepDiff(cmd.Context(), a, reach{policies: names})
		},
	}
	cmd.Flags().StringArrayVar(&names, "policy", nil, "only this retention policy `NAME`; may be repeated")
	// The flag exists, and has no words yet.
	_ = cmd.RegisterFlagCompletionFunc("policy", a.retentionWords)
	return cmd
}

// policyDiff is what a policy newly exposes.
type policyDiff struct {
	policy   work.Retention
	last     work.RetentionVersion // Version 0: never swept by
	admitted bool                  // a sweep needs no further look
	preview  work.Preview
}

// diffJSON is the contract of a changed policy. What is null: never swept by.
type diffJSON struct {
	Policy       string         `json:"policy"`
	Version      int            `json:"version"`
	Keep         float64        `json:"keep"` // seconds
	SweptVersion *int           `json:"swept_version"`
	SweptKeep    *float64       `json:"swept_keep"`
	Cutoff       render.Instant `json:"cutoff"`
	Candidates   int64          `json:"candidates"`
	NewlyExposed int64          `json:"newly_exposed"`
	Previewed    bool           `json:"previewed"`
}

func runSweepDiff(ctx context.Context, a *app, r reach) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(c *config.Config, s *pgstore.Store) error {
		policies, err := r.selected(c)
		if err != nil {
			return err
		}
		var diffs []policyDiff
		for _, p := range policies {
			known, err := s.RetentionVersions(ctx, p.Name)
			if err != nil {
				return err
			}
			d := policyDiff{policy: p, last: lastSwept(known)}
			refused := sweep.Judge(p, known, false)
			if errors.Is(refused, work.ErrConfig) {
				return refused
			}
			d.admitted = refused == nil
			request := work.PreviewRequest{Policy: p, Reach: r.of(p, c.DuplicateWindow()), Current: p.Keep, Exact: countedExactly}
			against(&request, d.last)
			if d.preview, err = s.Preview(ctx, request); err != nil {
				return err
			}
			diffs = append(diffs, d)
		}
		return diffView().Write(a.io.Out, format, diffs)
	})
}

func (d policyDiff) exposed() int64 { return d.preview.Candidates - d.preview.CurrentCandidates }

func diffView() render.View[policyDiff] {
	return render.View[policyDiff]{
		Columns: []render.Column[policyDiff]{
			{Header: "POLICY", Fixed: true, Value: func(d policyDiff) string { return d.policy.Name }},
			{Header: "VERSION", Right: true, Value: func(d policyDiff) string { return strconv.Itoa(d.policy.Version) }},
			{Header: "KEEPS", Right: true, Value: func(d policyDiff) string { return config.FormatDuration(d.policy.Keep) }},
			{Header: "SWEPT VERSION", Right: true, Value: func(d policyDiff) string { return ifKnown(d.last.Version > 0, strconv.Itoa(d.last.Version)) }},
			{Header: "KEPT", Right: true, Value: func(d policyDiff) string { return ifKnown(d.last.Version > 0, config.FormatDuration(d.last.Keep)) }},
			{Header: "CANDIDATES", Right: true, Value: func(d policyDiff) string { return strconv.FormatInt(d.preview.Candidates, 10) }},
			{Header: "NEWLY EXPOSED", Right: true, Value: func(d policyDiff) string { return strconv.FormatInt(d.exposed(), 10) }},
			{Header: "PREVIEWED", Value: func(d policyDiff) string { return strconv.FormatBool(d.admitted) }},
		},
		JSON: func(d policyDiff) any {
			doc := diffJSON{
				Policy: d.policy.Name, Version: d.policy.Version, Keep: render.Seconds(d.policy.Keep), Cutoff: render.Instant(d.preview.Cutoff),
				Candidates: d.preview.Candidates, NewlyExposed: d.exposed(), Previewed: d.admitted,
			}
			if d.last.Version > 0 {
				keep := render.Seconds(d.last.Keep)
				doc.SweptVersion, doc.SweptKeep = &d.last.Version, &keep
			}
			return doc
		},
		Name: func(d policyDiff) string { return d.policy.Name },
	}
}

func ifKnown(known bool, text string) string {
	if !known {
		return "-"
	}
	return text
}
