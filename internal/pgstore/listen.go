package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/lib/pq"
)

const (
	// askEvery is how often a quiet link is asked whether it still stands: half a minute
	// is often enough for firewalls, which forget links that are silent for minutes.
	askEvery = 30 * time.Second
	// breath bounds how often a storm of notifications is looked at.
	breath = 2 * time.Millisecond
	// listenAgain and listenAgainMax are the first and the longest wait before another try
	// to listen.
	listenAgain    = 250 * time.Millisecond
	listenAgainMax = 5 * time.Second
	// maxChannel is how many bytes of the schema's name a channel's name takes, as the
	// trigger deliveries_tell_workers has it.
	maxChannel = 59
)

// errPooled: whoever greeted the connection is not the process that serves it, so a
// notification would go to whichever client has that process at the time.
var errPooled = errors.New("a pooler stands before the database")

// Listener hears of deliveries that were put in, on a connection of its own: it is a
// session of the server beside those of Options.MaxConns.
type Listener struct {
	// Wake gets a token for each burst of notifications, and one whenever listening has
	// begun: something may have been put in before. It holds one token.
	Wake <-chan struct{}

	wake      chan struct{}
	ended     chan struct{}
	database  *target
	channel   string
	limit     *atomic.Int64 // nanoseconds that one answer may take
	line      *line         // of the connection made last
	deaf      bool          // it was said that nothing is heard
	intervals *backoff.ExponentialBackOff
	log       *slog.Logger
}

// Listen begins to listen, until ctx ends. It neither waits for the database nor fails
// where listening cannot work: whoever is woken by it has to look by itself from time to
// time in any case. What keeps it from listening is logged once.
func Listen(ctx context.Context, o Options, log *slog.Logger) (*Listener, error) {
	to, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if o.IOTimeout == 0 {
		o.IOTimeout = DefaultIOTimeout
	}
	wake := make(chan struct{}, 1)
	l := &Listener{
		Wake: wake, wake: wake, ended: make(chan struct{}), database: to, limit: new(atomic.Int64),
		channel: dueChannel(o.Schema), log: log,
		intervals: backoff.NewExponentialBackOff(),
	}
	l.intervals.InitialInterval, l.intervals.MaxInterval = listenAgain, listenAgainMax
	l.limit.Store(int64(o.IOTimeout))
	to.dialBy(lineDialer{dialer: dialer{limit: l.limit}, ctx: ctx, made: func(made *line) { l.line = made }})
	go l.run(ctx)
	return l, nil
}

// Ended is closed when nothing is listened for any more.
func (l *Listener) Ended() <-chan struct{} { return l.ended }

func (l *Listener) run(ctx context.Context) {
	defer close(l.ended)
	for {
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errPooled) {
			l.log.Info("new deliveries are found by looking every second: notifications do not pass a pooler", "database", l.database.String())
			return
		}
		if !l.deaf {
			l.deaf = true
			l.log.Warn("new deliveries are found by looking every second, until the database can be listened to again", "database", l.database.String(), "error", fault(err))
		}
		if !pause(ctx, l.intervals.NextBackOff()) {
			return
		}
	}
}

// listen connects and passes notifications on until the link ends.
func (l *Listener) listen(ctx context.Context) error {
	conn, err := l.database.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	told := false // of the notification that comes next
	pq.SetNotificationHandler(conn, func(*pq.Notification) {
		if !told {
			l.token()
		}
		told = false
	})
	c, ok := conn.(link)
	if !ok {
		return fmt.Errorf("the driver's connection is a %T", conn)
	}
	if err := l.begin(c); err != nil {
		return err
	}
	if l.deaf {
		l.deaf = false
		l.log.Info("the database is listened to again", "database", l.database.String())
	}
	l.token()
	if _, err := l.line.ask(c); err != nil { // learns how long an answer is
		return err
	}
	for first := true; ; first = false {
		for more := true; more; {
			if more, err = l.line.ask(c); err != nil {
				return err
			}
		}
		if !first {
			l.intervals.Reset() // this link holds
		}
		told = false
		if !pause(ctx, breath) {
			return ctx.Err()
		}
		if err := l.line.await(askEvery); err != nil {
			return err
		}
		// What arrives unasked is a notification: nobody needs to wait until it has been read.
		if told = l.line.held; told {
			l.token()
		}
	}
}

// This session is idle by design, and one of the server's own, so it may have settings.
const neverIdleSQL = `SELECT set_config(s.name, '0', false) FROM pg_settings s WHERE s.name = 'idle_session_timeout'`

// begin listens, unless somebody stands between.
func (l *Listener) begin(c link) error {
	// What runs on the line ends with it, and it ends with the context.
	ctx := context.Background()
	pid, err := (&session{link: c}).beginAs(ctx, "SELECT pg_backend_pid()")
	if err != nil {
		return err
	}
	if pid != greetedBy(c) {
		return errPooled
	}
	_, err = c.ExecContext(ctx, "LISTEN "+pq.QuoteIdentifier(l.channel)+"; "+neverIdleSQL, nil)
	return err
}

func (l *Listener) token() {
	select {
	case l.wake <- struct{}{}:
	default: // there is one already
	}
}

// pause waits, and is false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dueChannel is where a schema's trigger notifies.
func dueChannel(schema string) string { return schema[:min(len(schema), maxChannel)] + "_due" }
