package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const defaultSchema = "whctl"

// sql names the configured schema in a statement that is written for whctl's own.
func (s *Store) sql(statement string) string { return qualify(statement, s.schema) }

func qualify(statement, schema string) string {
	if schema == defaultSchema {
		return statement
	}
	return strings.NewReplacer(defaultSchema+".", schema+".", "SCHEMA "+defaultSchema+" ", "SCHEMA "+schema+" ").Replace(statement)
}

// contentionTries is how often a transaction that lost a race is tried in all.
const contentionTries = 5

// write runs f in a transaction and commits it; a lost race is tried again, and so is
// a database out of reach, for a few seconds. When the link breaks before COMMIT is
// answered, the error wraps work.ErrUnknown: the transaction may have been stored.
func (s *Store) write(ctx context.Context, f func(tx *sqlx.Tx) error) error {
	return s.inTx(ctx, nil, f)
}

// repeat is write for what is harmless when it is done twice: an unknown outcome is
// tried again too.
func (s *Store) repeat(ctx context.Context, f func(tx *sqlx.Tx) error) error {
	for try := 1; ; try++ {
		err := s.inTx(ctx, nil, f)
		if !errors.Is(err, work.ErrUnknown) || try == contentionTries {
			return err
		}
	}
}

// read runs f in a read-only transaction, which also works on a standby.
func (s *Store) read(ctx context.Context, f func(tx *sqlx.Tx) error) error {
	return s.inTx(ctx, &sql.TxOptions{ReadOnly: true}, f)
}

// errReadOnly refuses a write before it is tried: the driver's BEGIN would get past the
// default of the role or database.
var errReadOnly = fmt.Errorf("%w: it is read-only: a standby, or default_transaction_read_only is on", work.ErrUnreachable)

func (s *Store) inTx(ctx context.Context, o *sql.TxOptions, f func(tx *sqlx.Tx) error) error {
	for try := 1; ; try++ {
		err := persist(ctx, func() error { return s.once(ctx, o, f) })
		again := contention(err) || errors.Is(err, errPrepared)
		if err == nil || try == contentionTries || !again || ctx.Err() != nil {
			return err
		}
	}
}

func (s *Store) once(ctx context.Context, o *sql.TxOptions, f func(tx *sqlx.Tx) error) error {
	if s.readOnly && (o == nil || !o.ReadOnly) {
		return errReadOnly
	}
	settings := s.settings
	if o == nil || o.Isolation == sql.LevelDefault {
		settings = s.isolation + settings
	}
	tx, err := s.db.BeginTxx(withSettings(ctx, settings), o)
	if err != nil {
		return fault(err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing; before one the first error stands
	if err := f(tx); err != nil {
		if ctx.Err() != nil && pq.As(err, "57014") != nil {
			return context.Cause(ctx) // the server's word for a cancelled context
		}
		return fault(err)
	}
	err = fault(tx.Commit())
	if errors.Is(err, work.ErrUnreachable) && (o == nil || !o.ReadOnly) {
		return fmt.Errorf("%w: %w", work.ErrUnknown, err)
	}
	return err
}
