package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/sweep"
	"example.com/whctl/internal/work"
)

// sweptJSON is the contract of what a sweep did by one policy.
type sweptJSON struct {
	Policy        string          `json:"policy"`
	Version       int             `json:"version"`
	Cutoff        render.Instant  `json:"cutoff"`
	Batches       int             `json:"batches"`
	Deleted       deletedJSON     `json:"deleted"`
	Skipped       skippedJSON     `json:"skipped"`
	ArchivedBytes int64           `json:"archived_bytes"`
	AlreadyDone   int             `json:"already_done"`
	Remaining     *int64          `json:"remaining"`
	StartedAt     render.Instant  `json:"started_at"`
	BatchSeconds  float64         `json:"batch_seconds"`
	StoppedBy     sweep.StoppedBy `json:"stopped_by"`
}

type deletedJSON struct {
	Deliveries int64 `json:"deliveries"`
	Attempts   int64 `json:"attempts"`
}

// skippedJSON counts what was left alone although it is old enough.
type skippedJSON struct {
	Locked          int64 `json:"locked"`           // by other transactions; the next sweep takes it
	DuplicateWindow int64 `json:"duplicate_window"` // delivered so lately that a duplicate may yet come
}

func sweepView() render.View[sweep.Summary] {
	number := func(header string, of func(sweep.Summary) int64) render.Column[sweep.Summary] {
		return render.Column[sweep.Summary]{Header: header, Right: true, Value: func(s sweep.Summary) string { return strconv.FormatInt(of(s), 10) }}
	}
	wide := func(c render.Column[sweep.Summary]) render.Column[sweep.Summary] {
		c.Wide = true
		return c
	}
	return render.View[sweep.Summary]{
		Columns: []render.Column[sweep.Summary]{
			{Header: "POLICY", Fixed: true, Value: func(s sweep.Summary) string { return s.Policy }},
			wide(number("VERSION", func(s sweep.Summary) int64 { return int64(s.Version) })),
			{Header: "CUTOFF", Fixed: true, Value: func(s sweep.Summary) string { return render.Time(s.Cutoff) }},
			number("BATCHES", func(s sweep.Summary) int64 { return int64(s.Batches) }),
			number("DELIVERIES", func(s sweep.Summary) int64 { return s.Deliveries }),
			number("ATTEMPTS", func(s sweep.Summary) int64 { return s.Attempts }),
			wide(number("SKIPPED", func(s sweep.Summary) int64 { return s.Skipped + s.Window })),
			{Header: "ARCHIVED", Wide: true, Right: true, Value: func(s sweep.Summary) string { return humanize.IBytes(uint64(s.Archived)) }},
			number("DONE BEFORE", func(s sweep.Summary) int64 { return int64(s.AlreadyDone) }),
			{Header: "REMAINING", Right: true, Value: func(s sweep.Summary) string { return dueText(s.Remaining) }},
			{Header: "STOPPED BY", Value: func(s sweep.Summary) string { return string(s.StoppedBy) }},
		},
		JSON: func(s sweep.Summary) any {
			return sweptJSON{
				Policy: s.Policy, Version: s.Version, Cutoff: render.Instant(s.Cutoff), Batches: s.Batches,
				Deleted: deletedJSON{s.Deliveries, s.Attempts}, Skipped: skippedJSON{s.Skipped, s.Window}, ArchivedBytes: s.Archived,
				AlreadyDone: s.AlreadyDone, Remaining: s.Remaining, StartedAt: render.Instant(s.StartedAt),
				BatchSeconds: render.Seconds(s.Took), StoppedBy: s.StoppedBy,
			}
		},
		Name: func(s sweep.Summary) string { return s.Policy },
	}
}

// ledgerJSON is the contract of a batch in the ledger.
type ledgerJSON struct {
	BatchKey   string         `json:"batch_key"`
	Policy     string         `json:"policy"`
	Version    int            `json:"version"`
	Cutoff     render.Instant `json:"cutoff"`
	Seq        int            `json:"seq"`
	Target     work.Target    `json:"target"`
	Deliveries int64          `json:"deliveries"`
	Attempts   int64          `json:"attempts"`
	Skipped    int64          `json:"skipped"`
	Worker     string         `json:"worker"`
	StartedAt  render.Instant `json:"started_at"`
	FinishedAt render.Instant `json:"finished_at"`
	Archive    *archiveJSON   `json:"archive"`
}

type archiveJSON struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func ledgerView() render.View[work.LedgerRow] {
	return render.View[work.LedgerRow]{
		Columns: []render.Column[work.LedgerRow]{
			{Header: "FINISHED", Fixed: true, Value: func(r work.LedgerRow) string { return render.Time(r.FinishedAt) }},
			{Header: "POLICY", Value: func(r work.LedgerRow) string { return r.Policy }},
			{Header: "VERSION", Right: true, Value: func(r work.LedgerRow) string { return strconv.Itoa(r.Version) }},
			{Header: "CUTOFF", Fixed: true, Value: func(r work.LedgerRow) string { return render.Time(r.Cutoff) }},
			{Header: "SEQ", Right: true, Value: func(r work.LedgerRow) string { return strconv.Itoa(r.Seq) }},
			{Header: "DELIVERIES", Right: true, Value: func(r work.LedgerRow) string { return strconv.FormatInt(r.Deliveries, 10) }},
			{Header: "ATTEMPTS", Right: true, Value: func(r work.LedgerRow) string { return strconv.FormatInt(r.Attempts, 10) }},
			{Header: "SKIPPED", Wide: true, Right: true, Value: func(r work.LedgerRow) string { return strconv.FormatInt(r.Skipped, 10) }},
			{Header: "TOOK", Wide: true, Right: true, Value: func(r work.LedgerRow) string {
				return r.FinishedAt.Sub(r.StartedAt).Round(100 * time.Microsecond).String()
			}},
			{Header: "WORKER", Wide: true, Value: func(r work.LedgerRow) string { return r.Worker }},
			{Header: "ARCHIVE", Wide: true, Value: func(r work.LedgerRow) string { return r.Archive.File }},
		},
		JSON: func(r work.LedgerRow) any {
			doc := ledgerJSON{
				BatchKey: r.Key, Policy: r.Policy, Version: r.Version, Cutoff: render.Instant(r.Cutoff), Seq: r.Seq, Target: r.Target,
				Deliveries: r.Deliveries, Attempts: r.Attempts, Skipped: r.Skipped, Worker: r.Worker,
				StartedAt: render.Instant(r.StartedAt), FinishedAt: render.Instant(r.FinishedAt),
			}
			if r.Archive.File != "" {
				doc.Archive = &archiveJSON{r.Archive.File, r.Archive.Offset, r.Archive.Bytes, fmt.Sprintf("%x", r.Archive.SHA256)}
			}
			return doc
		},
		Name: func(r work.LedgerRow) string { return r.Key },
	}
}
