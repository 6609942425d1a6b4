package pgstore

import (
	"context"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const unclaimSQL = `
UPDATE whctl.deliveries d
SET lease_owner = NULL, lease_expires_at = NULL, attempt_id = NULL, attempts = d.attempts - 1
WHERE d.state = 0 AND d.destination_id = ANY($1::bigint[]) AND d.lease_owner = $2 AND d.attempt_id = ANY($3::uuid[])`

// unclaim gives back what a claim took whose commit was not answered: nothing of it was
// sent. It waits until the server knows what became of that transaction, for what is not
// committed yet cannot be seen, nor given back. Deliveries taken over from others stay
// leased; their leases end again and somebody closes them. It goes on when ctx has ended.
func (s *Store) unclaim(ctx context.Context, r work.ClaimRequest, transaction string) error {
	if transaction == "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	stored, err := s.stored(ctx, transaction)
	if err != nil || !stored {
		return err
	}
	dest, _, _, _, _, _ := askColumns(r.Asks)
	return s.repeat(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, s.sql(unclaimSQL), pq.Array(dest), r.Owner, uuids(r.AttemptIDs))
		return err
	})
}
