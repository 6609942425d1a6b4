package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/dlq"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

var _ dlq.Store = (*pgstore.Store)(nil)

// dlqListLimit is how many rows are listed where nothing else is said.
const dlqListLimit = 100

func newDLQCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters",
		Long: `Look at dead letters: deliveries that will not be attempted again by themselves, with the evidence of why.
They wait for a person.`,
		Example: `  whctl dlq list
  whctl dlq list --destination carrier-b --class unauthorized -o wide`,
		Args: noArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newDLQListCmd(a))
	return cmd
}

type dlqListOptions struct {
	selection dlq.Selection
	limit     int
	after     string
	detailed  bool
}

func newDLQListCmd(a *app) *cobra.Command {
	var o dlqListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the oldest death first",
		Long: `List dead letters, the oldest death first; those that died at the same instant in the order in which they came
in. Filters are values, compared whole, never patterns. A flag that is given several times takes any of its values;
different flags must all fit. What does not exist matches nothing, which is no error.

A JSON row has delivery_id, destination, tenant, subject, event_type, event_version, class, status (null where no
answer came), reason, fingerprint, attempts (of this generation), generation, event_at, died_at and payload_bytes. The
columns of the table are named alike; -o wide, csv and markdown have all of them.

When there are more than --limit, a note on a terminal's stderr counts them and gives the cursor for --after; with
--detailed-exitcode the exit code is 10. A cursor is a row's died_at, a comma and its delivery_id. It stays good
when that row is gone. csv, jsonl and name are written as they are read, so that they take no more memory for a
million rows.`,
		Example: `  whctl dlq list --destination carrier-b --class timeout --class connect
  whctl dlq list --tenant acme --limit 1000 -o jsonl > dead.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := o.query()
			if err != nil {
				return err
			}
			return runDLQList(cmd.Context(), a, q, o.detailed)
		},
	}
	f := cmd.Flags()
	// Not slices: a comma may be part of a value.
	f.StringArrayVar(&o.selection.Destinations, "destination", nil, "only this destination `NAME`; may be repeated")
	f.StringArrayVar(&o.selection.Tenants, "tenant", nil, "only this `TENANT`; may be repeated")
	f.StringArrayVar(&o.selection.EventTypes, "event-type", nil, "only this event `TYPE`; may be repeated")
	f.StringArrayVar(&o.selection.Classes, "class", nil, "only this outcome `CLASS` of the last attempt; may be repeated")
	f.StringArrayVar(&o.selection.Statuses, "status", nil, "only this HTTP `STATUS` of the last attempt; may be repeated")
	f.IntVar(&o.limit, "limit", dlqListLimit, "list at most `N` dead letters")
	f.StringVar(&o.after, "after", "", "go on behind this `CURSOR`")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "exit 10 when there are more")
	return cmd
}

func (o dlqListOptions) query() (work.LetterQuery, error) {
	filter, err := o.selection.Filter()
	if err != nil {
		return work.LetterQuery{}, err
	}
	if o.limit < 1 {
		return work.LetterQuery{}, usage("--limit %d: want at least 1", o.limit)
	}
	after, err := dlq.ParseCursor(o.after)
	return work.LetterQuery{Filter: filter, After: after, Limit: o.limit}, err
}

func runDLQList(ctx context.Context, a *app, q work.LetterQuery, detailed bool) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		out := letterWriter{app: a, format: format}
		rest, err := dlq.Each(ctx, s, q, out.page)
		if err == nil {
			err = out.close()
		}
		if err == nil && out.written == 0 && a.io.ErrTTY && !a.global.quiet {
			a.warn("no dead letter found")
		}
		if err != nil || rest.Limit == 0 {
			return err
		}
		if err := a.noteMore(ctx, s, rest); err != nil {
			return err
		}
		if detailed {
			return silent(exitMore)
		}
		return nil
	})
}

// noteMore tells a person that the list goes on. Where nobody looks, stderr stays empty,
// so that a list into a pipe has nothing but rows.
func (a *app) noteMore(ctx context.Context, s dlq.Store, rest work.LetterQuery) error {
	if !a.io.ErrTTY || a.global.quiet {
		return nil
	}
	n, capped, err := dlq.Count(ctx, s, rest)
	if err != nil {
		return err
	}
	count := render.Count(n)
	if capped {
		count = "more than " + count
	}
	a.warn("%s more; --limit, or --after %s", count, dlq.Cursor(rest.After))
	return nil
}

// letterWriter writes pages as they come where the format has rows of its own, and all
// at the end where rows depend on each other.
type letterWriter struct {
	app     *app
	format  render.Options
	kept    []work.Letter
	written int
}

func (w *letterWriter) page(letters []work.Letter) error {
	w.written += len(letters)
	switch w.format.Format {
	case render.JSONL, render.CSV, render.Name:
		err := letterView().Write(w.app.io.Out, w.format, letters)
		w.format.NoHeaders = true // one header for all pages
		return err
	}
	w.kept = append(w.kept, letters...)
	return nil
}

func (w *letterWriter) close() error {
	switch w.format.Format {
	case render.JSONL, render.CSV, render.Name:
		return nil
	}
	return letterView().Write(w.app.io.Out, w.format, w.kept)
}

// letterJSON is the contract of a dead letter.
type letterJSON struct {
	DeliveryID   string         `json:"delivery_id"`
	Destination  string         `json:"destination"`
	Tenant       string         `json:"tenant"`
	Subject      string         `json:"subject"`
	EventType    string         `json:"event_type"`
	EventVersion string         `json:"event_version"`
	Class        *work.Class    `json:"class"`
	Status       *int           `json:"status"`
	Reason       work.Reason    `json:"reason"`
	Fingerprint  *string        `json:"fingerprint"`
	Attempts     int            `json:"attempts"`
	Generation   int            `json:"generation"`
	EventAt      render.Instant `json:"event_at"`
	DiedAt       render.Instant `json:"died_at"`
	PayloadBytes int64          `json:"payload_bytes"`
}

func letterView() render.View[work.Letter] {
	text := func(header string, of func(work.Letter) string) render.Column[work.Letter] {
		return render.Column[work.Letter]{Header: header, Value: of}
	}
	number := func(header string, of func(work.Letter) int64) render.Column[work.Letter] {
		return render.Column[work.Letter]{Header: header, Right: true, Value: func(l work.Letter) string { return strconv.FormatInt(of(l), 10) }}
	}
	wide := func(c render.Column[work.Letter]) render.Column[work.Letter] {
		c.Wide = true
		return c
	}
	return render.View[work.Letter]{
		Columns: []render.Column[work.Letter]{
			text("DELIVERY ID", func(l work.Letter) string { return l.DeliveryID }),
			text("DESTINATION", func(l work.Letter) string { return l.Destination }),
			text("TENANT", func(l work.Letter) string { return l.Tenant }),
			text("SUBJECT", func(l work.Letter) string { return l.Subject }),
			text("EVENT TYPE", func(l work.Letter) string { return l.EventType }),
			wide(text("EVENT VERSION", func(l work.Letter) string { return l.EventVersion })),
			text("CLASS", func(l work.Letter) string { return string(l.Class) }),
			{Header: "STATUS", Right: true, Value: func(l work.Letter) string { return statusText(l.Status) }},
			text("REASON", func(l work.Letter) string { return string(l.Reason) }),
			wide(text("FINGERPRINT", func(l work.Letter) string { return l.Fingerprint })),
			number("ATTEMPTS", func(l work.Letter) int64 { return int64(l.Attempts) }),
			wide(number("GENERATION", func(l work.Letter) int64 { return int64(l.Generation) })),
			wide(text("EVENT AT", func(l work.Letter) string { return render.Time(l.EventAt) })),
			{Header: "DIED AT", Fixed: true, Value: func(l work.Letter) string { return render.Time(l.DiedAt) }},
			wide(number("PAYLOAD BYTES", func(l work.Letter) int64 { return l.PayloadBytes })),
		},
		JSON: func(l work.Letter) any { return letterDocument(l) },
		Name: func(l work.Letter) string { return l.DeliveryID },
	}
}

func letterDocument(l work.Letter) letterJSON {
	return letterJSON{
		DeliveryID: l.DeliveryID, Destination: l.Destination, Tenant: l.Tenant, Subject: l.Subject, EventType: l.EventType,
		EventVersion: l.EventVersion, Class: orNull(l.Class), Status: orNull(l.Status), Reason: l.Reason,
		Fingerprint: orNull(l.Fingerprint), Attempts: l.Attempts, Generation: l.Generation, EventAt: render.Instant(l.EventAt),
		DiedAt: render.Instant(l.DiedAt), PayloadBytes: l.PayloadBytes,
	}
}
