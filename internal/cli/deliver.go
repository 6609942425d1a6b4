package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
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
	"example.com/whctl/internal/work"
)

var _ deliver.Store = (*pgstore.Store)(nil)

const (
	// deliverIOTimeout is how long a run waits for one answer of the database: with the
	// tries that follow, a run on a link that has gone silent ends within 30 s.
	deliverIOTimeout = 6 * time.Second
	// deliverConns: one claims while another records, and one reads large payloads.
	deliverConns = 3
	// A command that allocates much and keeps little lets the collector run seldom, up to a
	// bound. GOGC and GOMEMLIMIT say otherwise.
	gcPercent = 400
	// deliverMemory is the bound of a run with usualPlaces; each place more and each
	// destination adds to what it keeps.
	deliverMemory        = 36 << 20
	usualPlaces          = 256
	memoryOfAPlace       = 128 << 10
	memoryOfADestination = 8 << 10
)

// deliverNeeds are what a run needs of the database. A worker listens besides, on one
// more session.
var deliverNeeds = storeNeeds{ioTimeout: deliverIOTimeout, conns: deliverConns}

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
	metricsAddr  string
	metricsFile  string
	payloads     int64
}

func newDeliverCmd(a *app) *cobra.Command {
	var o deliverOptions
	cmd := &cobra.Command{
		Use:   "deliver",
		Short: "Attempt what is due",
		Long: `Attempt what is due. With --once in one bounded run, for cron: until nothing is due, --limit deliveries were
attempted, or --max-time has passed. Give it a bound: retries that become due meanwhile are attempted, too.
Without --once as a worker that goes on until it is stopped: it is woken by what is put in, and by what becomes
due. Deliveries that fail at the receiver make neither fail; the summary tells.

A run claims only as many deliveries as it can send at once, so a claim is the start of an attempt. On SIGTERM
nothing more is claimed, what is in flight ends within --grace and is recorded, and the rest is given back. A worker
that is stopped so ends with 0. Any number of runs and workers may work at the same time.

Configuration and keys are read at the start, the values of headers when a destination is first met or has changed: a
worker has to be restarted to see another value, but looks every half minute for one that was missing. Destinations
and pauses in the database it looks at about every second.

A worker takes up to four sessions of the database. Where it cannot listen, as behind a transaction pooler, it looks
for new deliveries every second. --metrics-addr serves /metrics for Prometheus, and /healthz, which fails when
the worker's loop has not turned for a minute. --metrics-file keeps the same for node_exporter; its counters go on
from run to run, so each job and each worker needs a file of its own.`,
		Example: `  whctl deliver --once --max-time 50s --quiet --metrics-file /var/lib/node_exporter/whctl.prom
  whctl deliver --concurrency 64 --metrics-addr 127.0.0.1:9464`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			return runDeliver(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "one bounded run, for cron, instead of a worker")
	f.IntVar(&o.limit, "limit", 0, "attempt at most `N` deliveries")
	f.Var((*durationFlag)(&o.maxTime), "max-time", "claim nothing after `DURATION`, such as 50s")
	f.IntVar(&o.concurrency, "concurrency", usualPlaces, "requests in flight at most")
	o.grace = 20 * time.Second
	f.Var((*durationFlag)(&o.grace), "grace", "how long a stop waits for requests in flight")
	f.StringArrayVar(&o.destinations, "destination", nil, "only this destination `NAME`; may be repeated")
	f.StringVar(&o.workerID, "worker-id", "", "`LABEL` of this run in leases and attempts (default: host name and process id)")
	f.StringVar(&o.failOn, "fail-on", "", "exit 3 when a delivery died (dead), or died or is to be retried (retry)")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "exit 10 when it stopped at its own limit with work left")
	f.StringVar(&o.metricsAddr, "metrics-addr", "", "serve metrics and health at `HOST:PORT`; of a worker only")
	f.StringVar(&o.metricsFile, "metrics-file", "", "keep metrics in `FILE`, for node_exporter")
	o.payloads = deliver.PayloadMemory
	f.Var((*sizeFlag)(&o.payloads), "payload-memory", "bytes of payloads held in memory at a time")
	a.completeDestinations(cmd, "destination")
	return cmd
}

func (o *deliverOptions) validate(cmd *cobra.Command) error {
	if err := o.validateMode(cmd); err != nil {
		return err
	}
	switch {
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
	case o.payloads < 1:
		return usage("--payload-memory: want more than 0")
	}
	if o.workerID == "" {
		o.workerID = processLabel()
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
	places, err := o.places(log)
	if err != nil {
		return err
	}
	endpoints, err := a.newEndpoints(c, places)
	if err != nil {
		return err
	}
	grow := func(destinations int) { a.tuneCollector(o.memory(places, destinations)) }
	grow(0)
	tell, err := o.startTelling(ctx, a.version, log)
	if err != nil {
		return err
	}
	defer tell.end()
	store, err := a.openStore(ctx, c, deliverNeeds)
	if err != nil {
		return o.softly(ctx, err, false)
	}
	defer func() { _ = store.Close() }()
	if err := destinationsExist(ctx, store, o.destinations); err != nil {
		return o.softly(ctx, err, false)
	}
	owner, err := leaseOwner(o.workerID)
	if err != nil {
		return err
	}
	work := deliver.Options{
		Owner: owner, Places: places, Limit: o.limit, MaxTime: o.maxTime, Grace: o.grace, Destinations: o.destinations,
		Endpoint: endpoints.endpoint, Guard: guards(c, store), Random: mathrand.Float64, Log: log,
		Observe: tell.observer(), PayloadMemory: o.payloads, Grow: grow,
	}
	sum, err := o.deliver(ctx, a.storeOptions(c, deliverNeeds), store, work)
	tell.finished(sum, err)
	if printed := a.printSummary(format, sum, err); err == nil {
		err = printed
	}
	if err == nil {
		err = o.verdict(ctx, sum)
	}
	return o.softly(ctx, err, true)
}

// places is how many requests may be in flight; fewer than were asked for are said.
func (o deliverOptions) places(log *slog.Logger) (int, error) {
	n, err := placesFor(o.concurrency)
	if err == nil && n < o.concurrency {
		log.Warn("the limit of open files (ulimit -n) leaves room for fewer requests in flight", "concurrency", o.concurrency, "in_flight", n)
	}
	return n, err
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

// memory is how many bytes a run may take before the collector has to hurry.
func (o deliverOptions) memory(places, destinations int) int64 {
	return deliverMemory + memoryOfAPlace*int64(max(0, places-usualPlaces)) + memoryOfADestination*int64(destinations) +
		2*max(0, o.payloads-deliver.PayloadMemory) // each may stand there twice: as read, and as the body
}

// tuneCollector fits Go's collector to a command that uses more bytes than most.
func (a *app) tuneCollector(limit int64) {
	if _, set := a.io.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if _, set := a.io.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(limit)
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

// processLabel names this process where the operator did not.
func processLabel() string {
	host, err := os.Hostname()
	if err != nil {
		host = "whctl"
	}
	return host[:min(len(host), 48)] + ":" + strconv.Itoa(os.Getpid())
}
