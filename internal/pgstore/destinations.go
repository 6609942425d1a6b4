package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	destinationColumns = `
SELECT x.id, x.name, x.url, x.policy, x.signing_key, x.headers, x.max_in_flight, x.rate, x.tenants, x.body,
       x.payload_max, x.created_at, x.updated_at, ` + healthColumns + `
FROM whctl.destinations x
LEFT JOIN whctl.destination_health h ON h.destination_id = x.id`

	// By bytes: the order must not depend on the database's language.
	destinationsSQL = destinationColumns + `
ORDER BY x.name COLLATE "C"`

	destinationSQL = destinationColumns + `
WHERE x.name = $1`
)

// Destinations lists all destinations by name.
func (s *Store) Destinations(ctx context.Context) ([]work.Destination, error) {
	var rows []destinationRow
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, s.sql(destinationsSQL))
	})
	if err != nil {
		return nil, fmt.Errorf("list destinations: %w", err)
	}
	return destinations(rows), nil
}

// Destination reads one destination and what it has to do. An unknown name is
// work.ErrNotFound.
func (s *Store) Destination(ctx context.Context, name string) (work.Destination, work.DestinationLoad, error) {
	var row destinationRow
	var load work.DestinationLoad
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &row, s.sql(destinationSQL), name)
		if err == nil {
			load, err = s.load(ctx, tx, row.ID)
		}
		return err
	})
	if err != nil {
		return work.Destination{}, load, destinationFault("read", name, err)
	}
	return row.destination(), load, nil
}

const (
	openLoadSQL = `
SELECT count(*) FILTER (WHERE d.attempt_id IS NULL) AS scheduled,
       count(*) FILTER (WHERE d.attempt_id IS NULL AND d.next_attempt_at <= now()) AS due,
       count(*) FILTER (WHERE d.lease_expires_at > now()) AS in_flight,
       count(*) FILTER (WHERE d.lease_expires_at <= now()) AS stuck
FROM whctl.deliveries d
WHERE d.state = 0 AND d.destination_id = $1`

	deadLoadSQL = `
SELECT count(*) FROM whctl.deliveries d WHERE d.state = 2 AND d.destination_id = $1`
)

func (s *Store) load(ctx context.Context, tx *sqlx.Tx, id int64) (work.DestinationLoad, error) {
	var row struct {
		Scheduled int64 `db:"scheduled"`
		Due       int64 `db:"due"`
		InFlight  int64 `db:"in_flight"`
		Stuck     int64 `db:"stuck"`
	}
	if err := tx.GetContext(ctx, &row, s.sql(openLoadSQL), id); err != nil {
		return work.DestinationLoad{}, err
	}
	l := work.DestinationLoad{Scheduled: row.Scheduled, Due: row.Due, InFlight: row.InFlight, Stuck: row.Stuck}
	return l, tx.GetContext(ctx, &l.Dead, s.sql(deadLoadSQL), id)
}

const (
	// The lock waits for enqueues into the destination that have not been committed, and
	// makes others wait: nothing is counted under it.
	lockDestinationSQL = `
SELECT x.id FROM whctl.destinations x WHERE x.id = $1 FOR UPDATE`

	// Asked anew under the lock, by a statement of its own: one that had to wait would
	// not see what it waited for.
	removeUnneededSQL = `
DELETE FROM whctl.destinations x
WHERE x.id = ANY($1::bigint[])
  AND NOT EXISTS (SELECT FROM whctl.deliveries d WHERE d.state = 0 AND d.destination_id = x.id)
  AND NOT EXISTS (SELECT FROM whctl.deliveries d WHERE d.state = 2 AND d.destination_id = x.id)
RETURNING x.id`
)

// RemoveDestination removes a destination that nothing needs any more. One that is
// needed stays: removed is false, and load says what for (it may have come to an end
// meanwhile). An unknown name is work.ErrNotFound.
func (s *Store) RemoveDestination(ctx context.Context, name string) (removed bool, load work.DestinationLoad, err error) {
	for try := 1; ; try++ {
		var d work.Destination
		d, load, err = s.Destination(ctx, name)
		if err != nil || load.Needed() || try > contentionTries {
			return false, load, err
		}
		removed, err = s.removeUnneeded(ctx, d.ID)
		if err != nil {
			return false, load, destinationFault("remove", name, err)
		}
		if removed {
			return true, load, nil
		}
	}
}

func (s *Store) removeUnneeded(ctx context.Context, id int64) (bool, error) {
	var removed []int64
	err := s.certain(ctx, func(tx *sqlx.Tx) error {
		removed = nil
		var locked int64
		if err := tx.GetContext(ctx, &locked, s.sql(lockDestinationSQL), id); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &removed, s.sql(removeUnneededSQL), pq.Array([]int64{id}))
	})
	return len(removed) > 0, err
}

func destinationFault(verb, name string, err error) error {
	if errors.Is(err, work.ErrNotFound) {
		return fmt.Errorf("destination %q: %w", name, work.ErrNotFound)
	}
	return fmt.Errorf("%s destination %q: %w", verb, name, err)
}

const destinationNamesSQL = `
SELECT x.name FROM whctl.destinations x WHERE starts_with(x.name, $1) ORDER BY x.name COLLATE "C" LIMIT $2`

// DestinationNames lists names that begin with prefix, at most limit.
func (s *Store) DestinationNames(ctx context.Context, prefix string, limit int) ([]string, error) {
	return s.words(ctx, destinationNamesSQL, prefix, limit)
}

const (
	// By bytes and with LIKE neither would use the index of the ids.
	deliveryIDsSQL = `
SELECT e.delivery_id FROM whctl.envelopes e
WHERE e.delivery_id >= $1
ORDER BY e.delivery_id LIMIT $2`

	scheduledIDsSQL = `
SELECT e.delivery_id FROM whctl.envelopes e
JOIN whctl.deliveries d ON d.id = e.id
WHERE e.delivery_id >= $1 AND d.state = 0 AND d.attempt_id IS NULL
ORDER BY e.delivery_id LIMIT $2`
)

// DeliveryIDs lists ids from prefix on, at most limit; scheduled: only those that could
// be cancelled.
func (s *Store) DeliveryIDs(ctx context.Context, prefix string, scheduled bool, limit int) ([]string, error) {
	if scheduled {
		return s.words(ctx, scheduledIDsSQL, prefix, limit)
	}
	return s.words(ctx, deliveryIDsSQL, prefix, limit)
}

func (s *Store) words(ctx context.Context, query string, args ...any) ([]string, error) {
	var words []string
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		words = nil
		return tx.SelectContext(ctx, &words, s.sql(query), args...)
	})
	return words, err
}
