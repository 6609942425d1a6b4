package pgstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// dueDestinationsSQL steps through the due index from destination to destination (a
// loose index scan), looking at one entry of each, however many are due there.
const dueDestinationsSQL = `
WITH RECURSIVE s AS (
  (SELECT d.destination_id AS id FROM whctl.deliveries d WHERE d.state = 0
   ORDER BY d.destination_id, d.next_attempt_at LIMIT 1)
  UNION ALL
  SELECT (SELECT d.destination_id FROM whctl.deliveries d WHERE d.state = 0 AND d.destination_id > s.id
          ORDER BY d.destination_id, d.next_attempt_at LIMIT 1)
  FROM s WHERE s.id IS NOT NULL)
SELECT x.id, x.name, x.url, x.policy, x.signing_key, x.headers, x.max_in_flight, x.rate, x.tenants, x.body,
       x.payload_max, x.created_at, x.updated_at,
       EXISTS (SELECT FROM whctl.deliveries d WHERE d.state = 0 AND d.class = 16 AND d.destination_id = s.id) AS suspects
FROM s
JOIN whctl.destinations x ON x.id = s.id
CROSS JOIN LATERAL (
  SELECT d.next_attempt_at FROM whctl.deliveries d WHERE d.state = 0 AND d.destination_id = s.id
  ORDER BY d.next_attempt_at, d.id LIMIT 1) l
WHERE l.next_attempt_at <= now()
ORDER BY l.next_attempt_at, x.id`

// DueDestinations lists the destinations that have something due, leased or not, the
// one that has waited longest first.
func (s *Store) DueDestinations(ctx context.Context) ([]work.Destination, error) {
	var rows []destinationRow
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, s.sql(dueDestinationsSQL))
	})
	if err != nil {
		return nil, fmt.Errorf("find destinations with due deliveries: %w", err)
	}
	return destinations(rows), nil
}

// destinationRow is a row of whctl.destinations.
type destinationRow struct {
	ID          int64            `db:"id"`
	Name        string           `db:"name"`
	URL         string           `db:"url"`
	Policy      string           `db:"policy"`
	SigningKey  string           `db:"signing_key"`
	Headers     string           `db:"headers"`
	MaxInFlight sql.Null[int32]  `db:"max_in_flight"`
	Rate        sql.Null[string] `db:"rate"`
	Tenants     pq.StringArray   `db:"tenants"`
	Body        sql.Null[string] `db:"body"`
	PayloadMax  sql.Null[int64]  `db:"payload_max"`
	CreatedAt   time.Time        `db:"created_at"`
	UpdatedAt   time.Time        `db:"updated_at"`
	Suspects    bool             `db:"suspects"` // only of dueDestinationsSQL
}

func destinations(rows []destinationRow) []work.Destination {
	out := make([]work.Destination, len(rows))
	for i, r := range rows {
		out[i] = r.destination()
	}
	return out
}

func (r destinationRow) destination() work.Destination {
	d := work.Destination{
		ID: r.ID, Name: r.Name, URL: r.URL, Policy: r.Policy, Key: r.SigningKey,
		MaxInFlight: int(r.MaxInFlight.V), Rate: r.Rate.V, Tenants: r.Tenants,
		Body: work.BodyKind(r.Body.V), PayloadMax: r.PayloadMax.V, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Suspects: r.Suspects,
	}
	if err := json.Unmarshal([]byte(r.Headers), &d.Headers); err != nil {
		d.Fault = fmt.Errorf("%w: headers of destination %q are no references; mend them with: whctl destination apply", work.ErrConfig, r.Name)
	}
	return d
}

const nowSQL = `SELECT now()`

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var t time.Time
	err := s.read(ctx, func(tx *sqlx.Tx) error { return tx.GetContext(ctx, &t, nowSQL) })
	if err != nil {
		return t, fmt.Errorf("ask the database for the time: %w", err)
	}
	return t, nil
}

// maxBacklog bounds how far a backlog is counted: a few hundred milliseconds of work
// for the server.
const maxBacklog = 1_000_000

const backlogSQL = `
SELECT b.destination_id, count(*) AS due, extract(epoch FROM now() - min(b.next_attempt_at))::double precision AS oldest
FROM (SELECT d.destination_id, d.next_attempt_at FROM whctl.deliveries d
      WHERE d.state = 0 AND d.attempt_id IS NULL AND d.next_attempt_at <= now()
      LIMIT $1) AS b
GROUP BY b.destination_id
ORDER BY b.destination_id`

// Backlog counts what is due and not leased, by destination: a million deliveries at
// most, so that a run over a larger backlog does not end with a long count.
func (s *Store) Backlog(ctx context.Context) ([]work.Backlog, error) {
	var rows []struct {
		DestinationID int64   `db:"destination_id"`
		Due           int64   `db:"due"`
		Oldest        float64 `db:"oldest"`
	}
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, s.sql(backlogSQL), maxBacklog)
	})
	if err != nil {
		return nil, fmt.Errorf("count what is due: %w", err)
	}
	out := make([]work.Backlog, len(rows))
	for i, r := range rows {
		out[i] = work.Backlog{DestinationID: r.DestinationID, Due: r.Due, OldestAge: time.Duration(r.Oldest * float64(time.Second))}
	}
	return out, nil
}
