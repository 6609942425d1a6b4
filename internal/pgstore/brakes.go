package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

// brakesSQL looks at replicas, and at the oldest transaction of any database that holds a snapshot, prepared ones
// among them; not at vacuum, which holds none that matters. Who may not see the sessions of others sees them without times.
const brakesSQL = `
SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS sees,
       coalesce((SELECT max(coalesce(r.replay_lag, '0')) FROM pg_stat_replication r), '0') AS lag,
       greatest(
         (SELECT max(now() - a.xact_start) FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
            AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)),
         (SELECT max(now() - x.prepared) FROM pg_prepared_xacts x), '0') AS xmin_age`

// Brakes looks at what a gentle sweep waits for. A role that may not see other sessions
// gets work.ErrGrant.
func (s *Store) Brakes(ctx context.Context) (work.Brakes, error) {
	var row struct {
		Sees    bool    `db:"sees"`
		Lag     float64 `db:"lag"`
		XminAge float64 `db:"xmin_age"`
	}
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT b.sees, extract(epoch FROM b.lag)::float8 AS lag, extract(epoch FROM b.xmin_age)::float8 AS xmin_age FROM (`+brakesSQL+`) b`)
	})
	if err != nil {
		return work.Brakes{}, fmt.Errorf("look at replicas and old transactions: %w", err)
	}
	if !row.Sees {
		return work.Brakes{}, fmt.Errorf("%w: to see replicas and the transactions of others it takes: GRANT pg_read_all_stats", work.ErrGrant)
	}
	return work.Brakes{Lag: time.Duration(row.Lag * float64(time.Second)), XminAge: time.Duration(row.XminAge * float64(time.Second))}, nil
}
