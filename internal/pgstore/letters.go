package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// letterConditions select the dead letters of a filter ($1 to $5; NULL does not
// restrict) behind a place ($6, $7). A destination stays while it has dead letters, so
// that its number stands for its name and envelopes need not be read. Behind a delivery
// that has been swept meanwhile the list goes on with the first of the same instant:
// rather some twice than one left out.
const letterConditions = `
WHERE d.state = 2
  AND ($1::text[] IS NULL OR d.destination_id = ANY(ARRAY(SELECT x.id FROM whctl.destinations x WHERE x.name = ANY($1))))
  AND ($2::text[] IS NULL OR e.tenant = ANY($2))
  AND ($3::text[] IS NULL OR e.event_type = ANY($3))
  AND ($4::smallint[] IS NULL OR d.class = ANY($4))
  AND ($5::smallint[] IS NULL OR d.status = ANY($5))
  AND (d.finished_at, d.id) > ($6::timestamptz,
       coalesce((SELECT x.id FROM whctl.envelopes x WHERE x.delivery_id = $7), -9223372036854775808))`

// lettersSQL walks the index of deaths from the place on. The limit (%d) is written into
// the text, for a parameter there makes the planner expect a tenth of all rows. Sizes
// are looked up for the rows of the page alone.
const lettersSQL = `
WITH page AS MATERIALIZED (
  SELECT d.id, d.finished_at, d.class, d.status, d.reason, d.fingerprint, d.attempts, d.generation,
         e.delivery_id, e.destination, e.tenant, e.subject, e.event_type, e.event_version, e.event_at
  FROM whctl.deliveries d
  JOIN whctl.envelopes e ON e.id = d.id` + letterConditions + `
  ORDER BY d.finished_at, d.id
  LIMIT %d)
SELECT p.delivery_id, p.destination, p.tenant, p.subject, p.event_type, p.event_version, coalesce(p.class, 0) AS class,
       coalesce(p.status, 0) AS status, p.reason, coalesce(p.fingerprint, '') AS fingerprint, p.attempts, p.generation,
       p.event_at, p.finished_at, z.bytes
FROM page p
JOIN whctl.payload_sizes z ON z.id = p.id
ORDER BY p.finished_at, p.id`

type letterRow struct {
	DeliveryID   string    `db:"delivery_id"`
	Destination  string    `db:"destination"`
	Tenant       string    `db:"tenant"`
	Subject      string    `db:"subject"`
	EventType    string    `db:"event_type"`
	EventVersion string    `db:"event_version"`
	Class        int16     `db:"class"`
	Status       int       `db:"status"`
	Reason       int16     `db:"reason"`
	Fingerprint  string    `db:"fingerprint"`
	Attempts     int       `db:"attempts"`
	Generation   int       `db:"generation"`
	EventAt      time.Time `db:"event_at"`
	FinishedAt   time.Time `db:"finished_at"`
	Bytes        int64     `db:"bytes"`
}

// DeadLetters lists dead letters, the oldest death first, those of the same instant in
// the order in which they came in.
func (s *Store) DeadLetters(ctx context.Context, q work.LetterQuery) ([]work.Letter, error) {
	var rows []letterRow
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, fmt.Sprintf(s.sql(lettersSQL), q.Limit), letterArgs(q)...)
	})
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	letters := make([]work.Letter, len(rows))
	for i, r := range rows {
		letters[i] = work.Letter{
			DeliveryID: r.DeliveryID, Destination: r.Destination, Tenant: r.Tenant, Subject: r.Subject, EventType: r.EventType,
			EventVersion: r.EventVersion, Class: work.ClassOf(r.Class), Status: r.Status, Reason: work.ReasonOf(r.Reason),
			Fingerprint: r.Fingerprint, Attempts: r.Attempts, Generation: r.Generation, EventAt: r.EventAt, DiedAt: r.FinishedAt,
			PayloadBytes: r.Bytes,
		}
	}
	return letters, nil
}

// countLettersSQL looks at no more rows than it is to count.
const countLettersSQL = `
SELECT count(*) FROM (
  SELECT FROM whctl.deliveries d
  JOIN whctl.envelopes e ON e.id = d.id` + letterConditions + `
  ORDER BY d.finished_at, d.id
  LIMIT %d) l`

// CountDeadLetters counts the dead letters that a query asks for, up to its limit.
func (s *Store) CountDeadLetters(ctx context.Context, q work.LetterQuery) (int64, error) {
	var n int64
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &n, fmt.Sprintf(s.sql(countLettersSQL), q.Limit), letterArgs(q)...)
	})
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

func letterArgs(q work.LetterQuery) []any {
	var classes, statuses []int64 // nil is NULL
	for _, c := range q.Filter.Classes {
		classes = append(classes, int64(c.Code()))
	}
	for _, s := range q.Filter.Statuses {
		statuses = append(statuses, int64(s))
	}
	after := "-infinity"
	if !q.After.DiedAt.IsZero() {
		after = q.After.DiedAt.UTC().Format(time.RFC3339Nano)
	}
	id := sql.NullString{String: q.After.DeliveryID, Valid: q.After.DeliveryID != ""}
	return []any{
		pq.Array(q.Filter.Destinations), pq.Array(q.Filter.Tenants), pq.Array(q.Filter.EventTypes),
		pq.Array(classes), pq.Array(statuses), after, id,
	}
}
