package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/enqueue"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

var _ enqueue.Store = (*pgstore.Store)(nil)

// enqueueConns: one writes while destinations are looked up over another.
const enqueueConns = 2

type enqueueOptions struct {
	file   string
	strict bool
	order  work.Order
	times  struct{ eventAt, notBefore, notAfter string }
	// payload is a file's name, - for standard input.
	payload string
}

func newEnqueueCmd(a *app) *cobra.Command {
	var o enqueueOptions
	cmd := &cobra.Command{
		Use:   "enqueue --file FILE | --destination NAME --type TYPE --payload FILE",
		Short: "Put deliveries into the work table",
		Long: `Put deliveries into the work table: many from a file of JSON lines, or one by flags.

A line of --file is an object with the names of the flags: destination, type, subject, tenant, event_version,
event_id, event_at, delivery_id, not_before, not_after, and either payload (any JSON; the bytes are kept exactly as
they stand in the line) or payload_base64 (any bytes). Numbers become their text, null is the same as absent. The file
is streamed, whatever its size.

The same event (tenant, subject, type, version, destination) again is a duplicate and adds nothing, so that a file may
be run again after a failure. The same event with another payload is a conflict: it is refused. Without a version, the
hash of the payload is the version. Lines that cannot be taken are named on standard error, the first 20 of each kind
each, and do not keep the others out; with --strict either all lines are kept or none.

Conflicts and rejected lines exit 1. By flags, an unknown destination exits 4. The payload may have as many bytes as
enqueue.payload_max says. A file takes the role whctl_worker; by flags whctl_producer is enough, and for it
limit and kind of body are those that destination apply stored.`,
		Example: `  whctl enqueue --file events.jsonl
  pg_dump_events | whctl enqueue --file - --strict -o json
  whctl enqueue --destination carrier-b --type hold.expired --subject R-1041 --event-version 7 --payload event.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			if o.file != "" {
				return runEnqueueFile(cmd.Context(), a, o)
			}
			return runEnqueueOne(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "`FILE` of JSON lines, - for standard input")
	f.BoolVar(&o.strict, "strict", false, "with --file: keep all lines or, if one is rejected or conflicts, none")
	f.StringVar(&o.order.Destination, "destination", "", "`NAME` of the destination")
	f.StringVar(&o.order.EventType, "type", "", "`TYPE` of the event, such as enrolment.changed")
	f.StringVar(&o.order.Subject, "subject", "", "`ID` of what the event is about")
	f.StringVar(&o.order.Tenant, "tenant", "", "`ID` of whose event it is")
	f.StringVar(&o.order.EventVersion, "event-version", "", "`VERSION` of the subject (default: hash of the payload)")
	f.StringVar(&o.order.EventID, "event-id", "", "`ID` of the event")
	f.StringVar(&o.times.eventAt, "event-at", "", "`TIME` of the event, RFC 3339 with a zone (default: now)")
	f.StringVar(&o.order.DeliveryID, "delivery-id", "", "`ID` of the delivery (default: a new one)")
	f.StringVar(&o.times.notBefore, "not-before", "", "`TIME` before which it is not sent (default: now)")
	f.StringVar(&o.times.notAfter, "not-after", "", "`TIME` after which it is cancelled instead of sent")
	f.StringVar(&o.payload, "payload", "", "`FILE` whose bytes are the payload, - for standard input")
	return cmd
}

func (o *enqueueOptions) validate(cmd *cobra.Command) error {
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	if given("file") {
		for _, flag := range []string{
			"destination", "type", "subject", "tenant", "event-version", "event-id", "event-at", "delivery-id",
			"not-before", "not-after", "payload",
		} {
			if given(flag) {
				return usage("--file and --%s exclude each other: the lines say it", flag)
			}
		}
		if o.file == "" {
			return usage("--file is empty: want the name of a file, or - for standard input")
		}
		return nil
	}
	if o.strict {
		return usage("--strict goes with --file")
	}
	for _, flag := range []string{"destination", "type", "payload"} {
		if cmd.Flag(flag).Value.String() == "" {
			return usage("enqueue needs --file FILE, or --destination, --type and --payload; --%s is missing", flag)
		}
	}
	for _, flag := range []string{"event-version", "delivery-id", "event-at", "not-before", "not-after"} {
		if given(flag) && cmd.Flag(flag).Value.String() == "" {
			return usage("--%s is empty: leave it out, or say which", flag)
		}
	}
	return o.instants()
}

// useCase are the options of the use case by the configuration.
func (a *app) enqueueCase(c *config.Config) enqueue.Options {
	return enqueue.Options{
		PayloadMax: c.Enqueue.PayloadMax,
		// A policy that is not configured here may be where the worker runs: the body is
		// left open then.
		Body: func(policy string) work.BodyKind { return c.Policies[policy].Body },
	}
}

// enqueuedJSON is the contract of a summary.
type enqueuedJSON struct {
	Enqueued   int64 `json:"enqueued"`
	Duplicates int64 `json:"duplicates"`
	Conflicts  int64 `json:"conflicts"`
	Rejected   int64 `json:"rejected"`
}

func enqueuedDocument(s enqueue.Summary) enqueuedJSON {
	return enqueuedJSON{s.Enqueued, s.Duplicates, s.Conflicts, s.Rejected}
}

func enqueuedView() render.View[enqueue.Summary] {
	count := func(header string, of func(enqueue.Summary) int64) render.Column[enqueue.Summary] {
		return render.Column[enqueue.Summary]{
			Header: header, Right: true,
			Value: func(s enqueue.Summary) string { return strconv.FormatInt(of(s), 10) },
		}
	}
	return render.View[enqueue.Summary]{
		Columns: []render.Column[enqueue.Summary]{
			count("ENQUEUED", func(s enqueue.Summary) int64 { return s.Enqueued }),
			count("DUPLICATES", func(s enqueue.Summary) int64 { return s.Duplicates }),
			count("CONFLICTS", func(s enqueue.Summary) int64 { return s.Conflicts }),
			count("REJECTED", func(s enqueue.Summary) int64 { return s.Rejected }),
		},
		JSON: func(s enqueue.Summary) any { return enqueuedDocument(s) },
	}
}
