package pgstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	// Two that apply at once must not both plan from the same rows. Enqueues, which only
	// lock rows, and readers go on.
	lockDestinationsSQL = `LOCK TABLE whctl.destinations IN SHARE ROW EXCLUSIVE MODE`

	insertDestinationSQL = `
INSERT INTO whctl.destinations (name, url, policy, signing_key, headers, max_in_flight, rate, tenants, body, payload_max)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	updateDestinationSQL = `
UPDATE whctl.destinations x
SET url = $2, policy = $3, signing_key = $4, headers = $5, max_in_flight = $6, rate = $7, tenants = $8, body = $9, payload_max = $10,
    updated_at = now()
WHERE x.name = $1`
)

// ApplyDestinations makes the destinations what the list says, in one transaction, and
// tells what became of each, by name. With prune, those that the list does not name and
// nothing needs are removed.
func (s *Store) ApplyDestinations(ctx context.Context, wanted []work.Destination, prune bool) ([]work.DestinationChange, error) {
	var changes []work.DestinationChange
	err := s.certain(ctx, func(tx *sqlx.Tx) error {
		changes = nil
		if _, err := tx.ExecContext(ctx, s.sql(lockDestinationsSQL)); err != nil {
			return err
		}
		var rows []destinationRow
		if err := tx.SelectContext(ctx, &rows, s.sql(destinationsSQL)); err != nil {
			return err
		}
		there := make(map[string]destinationRow, len(rows))
		for _, r := range rows {
			there[r.Name] = r
		}
		for _, d := range wanted {
			c, err := s.applyOne(ctx, tx, there, d)
			if err != nil {
				return fmt.Errorf("destination %q: %w", d.Name, err)
			}
			changes = append(changes, c)
			delete(there, d.Name)
		}
		if !prune {
			return nil
		}
		pruned, err := s.prune(ctx, tx, rows, there)
		changes = append(changes, pruned...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("apply destinations: %w", err)
	}
	slices.SortFunc(changes, func(a, b work.DestinationChange) int { return strings.Compare(a.Name, b.Name) })
	return changes, nil
}

func (s *Store) applyOne(ctx context.Context, tx *sqlx.Tx, there map[string]destinationRow, d work.Destination) (work.DestinationChange, error) {
	c := work.DestinationChange{Name: d.Name, Action: work.DestinationCreated}
	statement := insertDestinationSQL
	row, known := there[d.Name]
	if known {
		c.Action, statement = work.DestinationChanged, updateDestinationSQL
	}
	// Headers that somebody put in by hand and that are no references read as empty ones;
	// a row with that fault is written anew in any case.
	before := row.destination()
	c.Fields = before.Changes(d)
	if known && len(c.Fields) == 0 && before.Fault == nil {
		c.Action = work.DestinationUnchanged
		return c, nil
	}
	args, err := destinationArgs(d)
	if err != nil {
		return c, err
	}
	_, err = tx.ExecContext(ctx, s.sql(statement), args...)
	return c, err
}

func destinationArgs(d work.Destination) ([]any, error) {
	headers := d.Headers
	if headers == nil {
		headers = map[string]work.Reference{}
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	tenants := d.Tenants
	if tenants == nil {
		tenants = []string{}
	}
	return []any{
		d.Name, d.URL, d.Policy, d.Key, string(text),
		sql.NullInt64{Int64: int64(d.MaxInFlight), Valid: d.MaxInFlight != 0},
		nullable(d.Rate), pq.Array(tenants), nullable(string(d.Body)),
		sql.NullInt64{Int64: d.PayloadMax, Valid: d.PayloadMax != 0},
	}, nil
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// lockIdleSQL locks those that no enqueue holds. It never waits: an enqueue that names
// two destinations may take their locks in any order.
const lockIdleSQL = `
SELECT x.id FROM whctl.destinations x WHERE x.id = ANY($1::bigint[]) ORDER BY x.id FOR UPDATE SKIP LOCKED`

// prune removes those of rows that are left over in extra and not needed. One that is
// kept without a load is just being enqueued to.
func (s *Store) prune(ctx context.Context, tx *sqlx.Tx, rows []destinationRow, extra map[string]destinationRow) ([]work.DestinationChange, error) {
	var changes []work.DestinationChange
	var idle []int64
	places := map[int64]int{}
	for _, r := range rows {
		if _, left := extra[r.Name]; !left {
			continue
		}
		load, err := s.load(ctx, tx, r.ID)
		if err != nil {
			return nil, fmt.Errorf("destination %q: %w", r.Name, err)
		}
		if !load.Needed() {
			idle = append(idle, r.ID)
		}
		places[r.ID] = len(changes)
		changes = append(changes, work.DestinationChange{Name: r.Name, Action: work.DestinationKept, Load: load})
	}
	var locked, removed []int64
	if err := tx.SelectContext(ctx, &locked, s.sql(lockIdleSQL), pq.Array(idle)); err != nil {
		return nil, fmt.Errorf("lock what is left over: %w", err)
	}
	if err := tx.SelectContext(ctx, &removed, s.sql(removeUnneededSQL), pq.Array(locked)); err != nil {
		return nil, fmt.Errorf("remove what is left over: %w", err)
	}
	for _, id := range removed {
		changes[places[id]].Action = work.DestinationRemoved
	}
	return changes, nil
}
