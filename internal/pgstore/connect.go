package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

// Limits of reaching the database.
const (
	// DefaultIOTimeout bounds one wait for the server: longer than any statement
	// of whctl should take, short enough that a silent link ends a run in time.
	DefaultIOTimeout = 35 * time.Second
	connectTimeout   = 5 * time.Second
	// reachWithin is how long an unreachable database is tried again.
	reachWithin = 15 * time.Second
)

// Options says how to reach the database.
type Options struct {
	URL              string        // postgres:// or libpq's key=value; "" leaves all to libpq's habits
	Schema           string        // whctl where it is empty
	StatementTimeout time.Duration // of one statement on the server; 0 leaves the role's setting
	IOTimeout        time.Duration // of one wait for the server's answer; DefaultIOTimeout where 0
	MaxConns         int           // open connections; 2 where 0
	SocketFolder     string        // of the server's Unix socket, where URL and environment name no host; Debian's where ""
}

// Store is the work table.
type Store struct {
	db       *sqlx.DB
	schema   string
	settings string        // of every transaction
	limit    *atomic.Int64 // nanoseconds that one wait for the server may take
	readOnly bool          // the database takes no writes
	// isolation begins the settings of a transaction that asks for none of its own.
	isolation string
	// known: the last enqueue met deliveries that were there before, so the next may too.
	known atomic.Bool
}

// idleWithin is how long a transaction may stand still between two statements. What it has
// locked (a destination's health, a worker) may hold up every other worker; without a bound
// one that was stopped, or whose link is gone, would do so until the server notices: hours.
const idleWithin = 5 * time.Second

// txSettings are made in every transaction: as start-up parameters a pooler would refuse
// them. Statements here are short however dear the planner thinks them, so compiling
// them first only costs. SET takes no parameters; the numbers are ours.
func txSettings(statementTimeout time.Duration) string {
	settings := fmt.Sprintf("SET LOCAL jit = off; SET LOCAL idle_in_transaction_session_timeout = %d", idleWithin.Milliseconds())
	if statementTimeout > 0 {
		settings += fmt.Sprintf("; SET LOCAL statement_timeout = %d", statementTimeout.Milliseconds())
	}
	return settings
}

// Open connects to the database, trying for a few seconds where nothing answers.
// Errors wrap work.ErrConfig (options that can't be used) or work.ErrUnreachable.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if err := checkSchemaName(o.Schema); err != nil {
		return nil, err
	}
	to, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	if o.IOTimeout == 0 {
		o.IOTimeout = DefaultIOTimeout
	}
	limit := new(atomic.Int64)
	limit.Store(int64(o.IOTimeout))
	to.dialBy(dialer{limit: limit})
	db := sqlx.NewDb(openDB(to), "postgres")
	db.SetMaxOpenConns(max(o.MaxConns, 2))
	db.SetMaxIdleConns(max(o.MaxConns, 2))
	s := &Store{db: db, schema: o.Schema, settings: txSettings(o.StatementTimeout), limit: limit}
	if err := s.reach(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("connect to %s: %w", to, startFault(to.cfg, err))
	}
	return s, nil
}

// Close ends all connections.
func (s *Store) Close() error { return s.db.Close() }

// The driver begins every transaction READ WRITE, past the default that an operator may
// have set to keep writes out.
const reachSQL = `
SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only,
       current_setting('default_transaction_isolation') <> 'read committed' AS isolated`

// plainIsolation undoes a default of the role or database under which the statements here
// would fail each other (40001).
const plainIsolation = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "

// reach tries until the server answers a query, for reachWithin. A server that answers
// with a refusal is not asked again. (The driver's Ping hides the cause of a refusal.)
func (s *Store) reach(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	var isolated bool
	err := persist(bounded, func() error {
		return fault(s.db.QueryRowContext(bounded, reachSQL).Scan(&s.readOnly, &isolated))
	})
	if isolated {
		s.isolation = plainIsolation
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: no answer within %s", work.ErrUnreachable, reachWithin)
	}
	return err
}

// persist calls f again while the database is out of reach, for reachWithin at most,
// and returns f's last error. Any other error ends it at once, and so does an unknown
// outcome.
func persist(ctx context.Context, f func() error) error {
	intervals := backoff.NewExponentialBackOff()
	intervals.InitialInterval = 50 * time.Millisecond
	intervals.MaxInterval = 2 * time.Second
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = f()
		if last != nil && (!passing(last) || errors.Is(last, work.ErrUnknown)) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(intervals), backoff.WithMaxElapsedTime(reachWithin))
	if err != nil && last == nil {
		return err
	}
	return last
}
