package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

var _ deliver.Store = (*pgstore.Store)(nil)

const (
	// deliverIOTimeout is how long a run waits for one answer of the database: with the
	// tries that follow, a run on a link that has gone silent ends within 30 s.
	deliverIOTimeout = 6 * time.Second
	// deliverConns: one claims while another records, and one reads large payloads.
	deliverConns = 3
	// A run allocates much and keeps little, so the collector may run seldom, up to a
	// bound. GOGC and GOMEMLIMIT say otherwise.
	deliverGCPercent   = 400
	deliverMemoryLimit = 80 << 20
)

type deliverOptions struct {
	once         bool
	limit        int
	maxTime      time.Duration
	concurrency  int
	grace        time.Duration
	destinations []string
	workerID     string
	failOn       string
	detailed     bool
}

func newDeliverCmd(a *app) *cobra.Command {
	var o deliverOptions
	cmd := &cobra.Command{
		Use:   "deliver --once",
		Short: "Attempt what is due",
		Long: `Attempt what is due, in one bounded run: until nothing is due, --limit deliveries were attempted, or
--max-time has passed. Deliveries that fail at the receiver do not make the run fail; its summary tells.

A run claims only as many deliveries as it can send at once, so a claim is the start of an attempt. On SIGTERM
nothing more is claimed, what is in flight ends within --grace and is recorded, and the rest is given back.
Any number of runs may work at the same time.`,
		Example: `  whctl deliver --once --quiet
  whctl deliver --once --max-time 50s --limit 10000 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			return runDeliver(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "one bounded run, for cron")
	f.IntVar(&o.limit, "limit", 0, "attempt at most `N` deliveries")
	f.Var((*durationFlag)(&o.maxTime), "max-time", "claim nothing after `DURATION`, such as 50s")
	f.IntVar(&o.concurrency, "concurrency", 256, "requests in flight at most")
	o.grace = 20 * time.Second
	f.Var((*durationFlag)(&o.grace), "grace", "how long a stop waits for requests in flight")
	f.StringArrayVar(&o.destinations, "destination", nil, "only this destination `NAME`; may be repeated")
	f.StringVar(&o.workerID, "worker-id", "", "`LABEL` of this run in leases and attempts (default: host name and process id)")
	f.StringVar(&o.failOn, "fail-on", "", "exit 3 when a delivery died (dead), or died or is to be retried (retry)")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "exit 10 when it stopped at its own limit with work left")
	a.completeDestinations(cmd, "destination")
	return cmd
}

func (o *deliverOptions) validate(cmd *cobra.Command) error {
	switch {
	case !o.once:
		return usage("deliver needs --once: this version has no long-running mode, start it from cron or a timer")
	case o.limit < 0 || cmd.Flags().Changed("limit") && o.limit == 0:
		return usage("--limit %d: want at least 1", o.limit)
	case o.maxTime < 0 || cmd.Flags().Changed("max-time") && o.maxTime == 0:
		return usage("--max-time: want more than 0")
	case o.concurrency < 1 || o.concurrency > 10000:
		return usage("--concurrency %d: want 1 to 10000", o.concurrency)
	case slices.Contains(o.destinations, ""):
		return usage("--destination: an empty name means none, not all")
	case o.grace < 0:
		return usage("--grace: want 0 or more")
	case o.failOn != "" && o.failOn != "dead" && o.failOn != "retry":
		return usage("--fail-on %q: want dead or retry", o.failOn)
	}
	if o.workerID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "whctl"
		}
		o.workerID = host[:min(len(host), 48)] + ":" + strconv.Itoa(os.Getpid())
	}
	if len(o.workerID) > 64 || strings.ContainsFunc(o.workerID, func(r rune) bool { return r <= ' ' || r == '#' || r > '~' }) {
		return usage("--worker-id: want 1 to 64 visible ASCII characters without #")
	}
	return nil
}

func runDeliver(ctx context.Context, a *app, o deliverOptions) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	places, err := placesFor(o.concurrency)
	if err != nil {
		return err
	}
	if places < o.concurrency {
		log.Warn("the limit of open files (ulimit -n) leaves room for fewer requests in flight", "concurrency", o.concurrency, "in_flight", places)
	}
	endpoints, err := a.newEndpoints(c, places)
	if err != nil {
		return err
	}
	a.tuneCollector()
	store, err := a.openStore(ctx, c, storeNeeds{ioTimeout: deliverIOTimeout, conns: deliverConns})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := destinationsExist(ctx, store, o.destinations); err != nil {
		return err
	}
	owner, err := leaseOwner(o.workerID)
	if err != nil {
		return err
	}
	sum, err := deliver.Once(ctx, store, deliver.Options{
		Owner: owner, Places: places, Limit: o.limit, MaxTime: o.maxTime, Grace: o.grace, Destinations: o.destinations,
		Endpoint: endpoints.endpoint, Guard: guards(c, store), Random: mathrand.Float64, Log: log,
	})
	if printed := a.printSummary(format, sum, err); err == nil {
		err = printed
	}
	if err != nil {
		return err
	}
	return o.verdict(ctx, sum)
}

// destinationsExist refuses a name that no destination has: a typo in a crontab would
// be silent for ever.
func destinationsExist(ctx context.Context, store *pgstore.Store, names []string) error {
	for _, name := range names {
		if _, _, err := store.Destination(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// printSummary prints what a run did, unless it was to be quiet and nothing went wrong.
func (a *app) printSummary(format render.Options, sum deliver.Summary, err error) error {
	if sum.WorkerID == "" || a.global.quiet && err == nil {
		return nil
	}
	return render.One(a.io.Out, format, summaryView(), sum)
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

// guards are the configured guards as the run asks them; nil where there are none.
func guards(c *config.Config, store *pgstore.Store) func(work.Claimed) func(context.Context) (bool, error) {
	if len(c.Guards) == 0 {
		return nil
	}
	return func(d work.Claimed) func(context.Context) (bool, error) {
		query, guarded := c.Guards[d.Envelope.EventType]
		if !guarded {
			return nil
		}
		return func(ctx context.Context) (bool, error) { return store.Guard(ctx, query, d.Envelope) }
	}
}

func (a *app) tuneCollector() {
	if _, set := a.io.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(deliverGCPercent)
	}
	if _, set := a.io.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(deliverMemoryLimit)
	}
}

// leaseOwner is unlike that of any other process, whatever its label.
func leaseOwner(label string) (string, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a lease owner: %w", err)
	}
	return label + "#" + hex.EncodeToString(b[:]), nil
}
