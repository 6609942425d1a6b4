package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	// The setting lasts as long as the transaction, so that no later client of the same
	// connection acts under this name.
	operatorSQL = `SELECT set_config('whctl.operator', $1, true)`

	cancelSQL = `SELECT whctl.cancel($1, $2)`

	cancelStateSQL = `
SELECT s.state FROM whctl.delivery_status s WHERE s.delivery_id = $1`
)

// Cancel cancels a delivery that is scheduled and puts that on record. One that is in
// another state stays as it is: done is false, and state says what it was, "" where the
// role may cancel but not look. An unknown id is work.ErrNotFound.
func (s *Store) Cancel(ctx context.Context, c work.Cancellation) (done bool, state work.State, err error) {
	refused := false
	err = s.certain(ctx, func(tx *sqlx.Tx) error {
		done, refused = false, false
		if c.Operator != "" {
			if _, err := tx.ExecContext(ctx, s.sql(operatorSQL), c.Operator); err != nil {
				return err
			}
		}
		// A delivery that was given back between the two questions is asked for again.
		for state = work.Scheduled; state == work.Scheduled; {
			if err := tx.GetContext(ctx, &done, s.sql(cancelSQL), c.DeliveryID, c.Reason); err != nil || done {
				return err
			}
			refused = true
			if err := tx.GetContext(ctx, &state, s.sql(cancelStateSQL), c.DeliveryID); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, work.ErrNotFound):
		return false, "", fmt.Errorf("delivery %s: %w", c.DeliveryID, work.ErrNotFound)
	case refused && errors.Is(err, work.ErrGrant):
		return false, "", nil
	case err != nil:
		return false, "", fmt.Errorf("cancel delivery %s: %w", c.DeliveryID, err)
	case done:
		return true, work.Cancelled, nil
	}
	return false, state, nil
}
