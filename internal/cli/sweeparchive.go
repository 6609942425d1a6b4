package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/archive"
	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

func newSweepArchiveCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Look at archives of what was removed, and put it back",
		Long: `Look at archives of what was removed, and put it back. A policy with archive: {dir: …} writes each batch into a file
there before its rows go: one delivery a line, with envelope and attempts, compressed with Zstandard (zstd -dc FILE
reads it), and with a manifest of checksums and counts beside it.`,
		Example: `  whctl sweep archive verify /var/lib/whctl/archive/dead-v1-20261101T000000.000000Z-8f31.ndjson.zst
  whctl sweep archive restore FILE --reason 'a claim came in, see INC-81'`,
		Args: noArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newArchiveVerifyCmd(a), newArchiveRestoreCmd(a))
	return cmd
}

func newArchiveVerifyCmd(a *app) *cobra.Command {
	offline := false
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Hold an archive against its manifest and the ledger",
		Long: `Hold an archive against its manifest: checksum and counts of each batch; and against the ledger: a batch is
committed, or was rolled back (its rows were not removed then), and every batch that the ledger says is here is
here. What a stopped run leaves behind the last batch is explained, and nothing wrong. Exit 3 if something is.`,
		Example: `  whctl sweep archive verify dead-v1-20261101T000000.000000Z-8f31.ndjson.zst
  whctl sweep archive verify FILE --offline -o json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runArchiveVerify(cmd.Context(), a, args[0], offline)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "do not ask the ledger")
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usage("%s wants one file, got %d", cmd.CommandPath(), len(args))
	}
	return nil
}

// verifiedBatch is one batch of an archive, with what the ledger says of it.
type verifiedBatch struct {
	archive.Batch
	ledger string // committed, rolled back or not asked
}

// ledgerMost bounds how many batches of one file are read of the ledger.
const ledgerMost = 10_000_000

const (
	batchCommitted  = "committed"
	batchRolledBack = "rolled back"
	batchNotAsked   = "not asked"
)

// verifiedJSON is the contract of a verified archive.
type verifiedJSON struct {
	File      string              `json:"file"`
	OK        bool                `json:"ok"`
	Bytes     int64               `json:"bytes"`
	Batches   []verifiedBatchJSON `json:"batches"`
	Problems  []string            `json:"problems"`
	Explained []string            `json:"explained"`
}

type verifiedBatchJSON struct {
	BatchKey   string  `json:"batch_key"`
	Offset     int64   `json:"offset"`
	Bytes      int64   `json:"bytes"`
	Deliveries int     `json:"deliveries"`
	Attempts   int     `json:"attempts"`
	Ledger     string  `json:"ledger"`
	Problem    *string `json:"problem"`
}

// verified is an archive that was looked at.
type verified struct {
	archive.Report
	batches []verifiedBatch
	missing []string // what the ledger says is here, and is not
}

func (v verified) ok() bool { return v.OK() && len(v.missing) == 0 }

func runArchiveVerify(ctx context.Context, a *app, path string, offline bool) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	var v verified
	look := func() error {
		report, err := archive.Verify(path)
		v.Report = report
		for _, b := range report.Batches {
			v.batches = append(v.batches, verifiedBatch{Batch: b, ledger: batchNotAsked})
		}
		return err
	}
	if offline {
		err = look()
	} else {
		err = a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
			// The ledger first: a batch that is committed meanwhile is in the file already.
			rows, err := s.Ledger(ctx, pgstore.LedgerQuery{Archive: filepath.Base(path), Limit: ledgerMost})
			if err == nil {
				err = look()
			}
			if err != nil {
				return err
			}
			return v.compare(ctx, s, rows)
		})
	}
	if err != nil {
		return err
	}
	if err := a.showVerified(format, v); err != nil {
		return err
	}
	if !v.ok() {
		return fmt.Errorf("%w: archive %s is not in order", work.ErrRefused, render.Visible(path))
	}
	return nil
}

// compare asks the ledger about each batch.
func (v *verified) compare(ctx context.Context, s *pgstore.Store, rows []work.LedgerRow) error {
	if len(rows) == 0 && len(v.batches) > 0 {
		known, err := s.KnowsSweep(ctx, v.batches[0].Key)
		if err != nil {
			return err
		}
		if !known {
			v.missing = append(v.missing, "the database knows nothing of this sweep: is it the right one?")
			return nil
		}
	}
	committed := make(map[string]work.LedgerRow, len(rows))
	for _, r := range rows {
		committed[r.Key] = r
	}
	for i := range v.batches {
		b := &v.batches[i]
		r, known := committed[b.Key]
		if b.ledger = batchRolledBack; !known || r.Archive.Offset != b.Offset {
			continue
		}
		b.ledger = batchCommitted
		delete(committed, b.Key)
		if string(r.Archive.SHA256) != string(b.SHA256) || r.Archive.Bytes != b.Bytes {
			v.missing = append(v.missing, fmt.Sprintf("batch %s is not the one that the ledger knows", b.Key))
		}
	}
	for _, r := range rows {
		if _, missing := committed[r.Key]; missing {
			v.missing = append(v.missing, fmt.Sprintf("batch %s is in the ledger and not in the archive: its %d deliveries are gone", r.Key, r.Deliveries))
		}
	}
	return nil
}

func (a *app) showVerified(format render.Options, v verified) error {
	if a.global.quiet && v.ok() {
		return nil
	}
	if err := render.One(a.io.Out, format, verifiedView(), v); err != nil {
		return err
	}
	if format.Format != "" && format.Format != render.Table && format.Format != render.Wide {
		return nil
	}
	if err := batchesView().Write(a.io.Out, format, v.batches); err != nil {
		return err
	}
	for _, texts := range [][]string{v.Problems, v.missing, v.Explained} {
		for _, text := range texts {
			if err := render.Block(a.io.Out, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func verifiedView() render.View[verified] {
	return render.View[verified]{
		Columns: []render.Column[verified]{
			{Header: "FILE", Value: func(v verified) string { return v.File }},
			{Header: "OK", Value: func(v verified) string { return strconv.FormatBool(v.ok()) }},
			{Header: "BATCHES", Right: true, Value: func(v verified) string { return strconv.Itoa(len(v.batches)) }},
			{Header: "DELIVERIES", Right: true, Value: func(v verified) string { return strconv.FormatInt(v.Deliveries, 10) }},
			{Header: "ATTEMPTS", Right: true, Value: func(v verified) string { return strconv.FormatInt(v.Attempts, 10) }},
		},
		JSON: func(v verified) any {
			doc := verifiedJSON{
				File: v.File, OK: v.ok(), Bytes: v.Bytes, Batches: []verifiedBatchJSON{},
				Problems: append(append([]string{}, v.Problems...), v.missing...), Explained: append([]string{}, v.Explained...),
			}
			for _, b := range v.batches {
				doc.Batches = append(doc.Batches, verifiedBatchJSON{b.Key, b.Offset, b.Bytes, b.Deliveries, b.Attempts, b.ledger, orNull(b.Problem)})
			}
			return doc
		},
	}
}

func batchesView() render.View[verifiedBatch] {
	return render.View[verifiedBatch]{Columns: []render.Column[verifiedBatch]{
		{Header: "BATCH", Fixed: true, Value: func(b verifiedBatch) string { return b.Key }},
		{Header: "DELIVERIES", Right: true, Value: func(b verifiedBatch) string { return strconv.Itoa(b.Deliveries) }},
		{Header: "ATTEMPTS", Right: true, Value: func(b verifiedBatch) string { return strconv.Itoa(b.Attempts) }},
		{Header: "LEDGER", Value: func(b verifiedBatch) string { return b.ledger }},
		{Header: "PROBLEM", Value: func(b verifiedBatch) string { return b.Problem }},
	}}
}

func newArchiveRestoreCmd(a *app) *cobra.Command {
	var o actor
	cmd := &cobra.Command{
		Use:   "restore FILE --reason REASON",
		Short: "Put archived deliveries back as finished ones",
		Long: `Put the deliveries of an archive back as finished ones, with envelopes and attempts. They keep their ids; their
retention begins anew. A batch that was rolled back when it was archived is left out. What is in the tables, by its id or
its logical key, stays as it is (exists); what went to a destination that is gone needs that destination first
(no_destination, exit 1). Each delivery that is put back has a row in the audit log. It takes the rights of
whctl_operator.`,
		Example: `  whctl sweep archive restore FILE --reason 'a claim came in, see INC-81' --operator ana
  whctl sweep archive restore FILE --reason 'swept too early' -o json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(a, "sweep archive restore", cmd.Flags().Changed("operator")); err != nil {
				return err
			}
			return runArchiveRestore(cmd.Context(), a, args[0], o)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why; it goes on record")
	f.StringVar(&o.operator, "operator", "", "`NAME` of who acts (default: $WHCTL_OPERATOR, else the database role)")
	return cmd
}

// restoredJSON is the contract of what was put back.
type restoredJSON struct {
	File          string `json:"file"`
	Restored      int    `json:"restored"`
	Exists        int    `json:"exists"`
	NoDestination int    `json:"no_destination"`
	RolledBack    int    `json:"rolled_back"` // deliveries of batches that removed nothing
}

func runArchiveRestore(ctx context.Context, a *app, path string, o actor) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	sum, gone := restoredJSON{File: path}, map[string]bool{}
	err = a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		ledger, err := s.Ledger(ctx, pgstore.LedgerQuery{Archive: filepath.Base(path), Limit: ledgerMost})
		if err != nil {
			return err
		}
		committed := make(map[string]int64, len(ledger))
		for _, r := range ledger {
			committed[r.Key] = r.Archive.Offset
		}
		err = archive.Read(path, func(b archive.Batch, rows []work.Archived) error {
			if at, known := committed[b.Key]; len(ledger) > 0 && (!known || at != b.Offset) {
				sum.RolledBack += len(rows)
				return nil
			}
			delete(committed, b.Key)
			done, err := s.Restore(ctx, rows, o.reason, o.operator)
			for _, d := range done {
				switch d.Result {
				case work.RestoreDone:
					sum.Restored++
				case work.RestoreExists:
					sum.Exists++
				case work.RestoreNoDestination:
					sum.NoDestination++
					gone[d.Destination] = true
				}
			}
			return err
		})
		if err == nil && len(committed) > 0 {
			err = fmt.Errorf("%d batches that the ledger says are in the archive are not; see: whctl sweep archive verify FILE", len(committed))
		}
		return err
	})
	if !a.global.quiet || err != nil {
		if printed := render.One(a.io.Out, format, restoredView(), sum); err == nil {
			err = printed
		}
	}
	if err == nil && len(gone) > 0 {
		err = fmt.Errorf("%d deliveries went to destinations that are gone (%s); apply those again, then restore", sum.NoDestination, orNone(slices.Sorted(maps.Keys(gone))))
	}
	return err
}

func restoredView() render.View[restoredJSON] {
	number := func(header string, of func(restoredJSON) int) render.Column[restoredJSON] {
		return render.Column[restoredJSON]{Header: header, Right: true, Value: func(r restoredJSON) string { return strconv.Itoa(of(r)) }}
	}
	return render.View[restoredJSON]{Columns: []render.Column[restoredJSON]{
		number("RESTORED", func(r restoredJSON) int { return r.Restored }),
		number("EXISTS", func(r restoredJSON) int { return r.Exists }),
		number("NO DESTINATION", func(r restoredJSON) int { return r.NoDestination }),
		number("ROLLED BACK", func(r restoredJSON) int { return r.RolledBack }),
	}}
}
