package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	transactionIDSQL = `SELECT pg_current_xact_id()::text`
	// The server knows of a recent transaction what became of it, also after the link
	// over which it was made is gone.
	transactionStatusSQL = `SELECT coalesce(pg_xact_status(CAST(CAST($1 AS text) AS xid8)), 'unknown')`
)

// certain is write for what must be told apart from its repeat: an act of a person that
// a second try would find done. When COMMIT is not answered, the server is asked what
// became of the transaction; only one that was not stored is made again.
func (s *Store) certain(ctx context.Context, f func(tx *sqlx.Tx) error) error {
	for try := 1; ; try++ {
		var id string
		err := s.write(ctx, func(tx *sqlx.Tx) error {
			if err := tx.GetContext(ctx, &id, transactionIDSQL); err != nil {
				return err
			}
			return f(tx)
		})
		if !errors.Is(err, work.ErrUnknown) {
			return err
		}
		stored, asked := s.stored(ctx, id)
		if asked != nil {
			return fmt.Errorf("%w (and asking for it: %w)", err, asked)
		}
		if stored {
			return nil
		}
		if try == contentionTries {
			return err
		}
	}
}

// stored asks what became of a transaction, for a while if the server has not noticed
// yet that the link is gone.
func (s *Store) stored(ctx context.Context, id string) (bool, error) {
	var status string
	err := persist(ctx, func() error {
		err := s.once(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sqlx.Tx) error {
			return tx.GetContext(ctx, &status, transactionStatusSQL, id)
		})
		if err == nil && status == "in progress" {
			err = fmt.Errorf("%w: transaction %s has not ended on the server", work.ErrUnreachable, id)
		}
		return err
	})
	if err == nil && status != "committed" && status != "aborted" {
		err = fmt.Errorf("the server does not know transaction %s any more", id)
	}
	return status == "committed", err
}
