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

// surveySQL steps through the due index from destination to destination (a loose index
// scan), looking at one entry of each, its head, however many are due there. Besides all
// destinations with something due it answers with the one whose turn comes next.
const surveySQL = `
WITH RECURSIVE s AS (
  (SELECT d.destination_id AS id, d.next_attempt_at AS due FROM whctl.deliveries d WHERE d.state = 0
   ORDER BY d.destination_id, d.next_attempt_at LIMIT 1)
  UNION ALL
  SELECT l.id, l.due FROM s
  CROSS JOIN LATERAL (SELECT d.destination_id AS id, d.next_attempt_at AS due FROM whctl.deliveries d
                      WHERE d.state = 0 AND d.destination_id > s.id
                      ORDER BY d.destination_id, d.next_attempt_at LIMIT 1) l),
heads AS (
  SELECT s.id, s.due FROM s WHERE s.due <= now()
  UNION ALL
  (SELECT s.id, s.due FROM s WHERE s.due > now() ORDER BY s.due LIMIT 1))
SELECT now() AS as_of, heads.due, x.id, x.name, x.url, x.policy, x.signing_key, x.headers, x.max_in_flight, x.rate, x.tenants, x.body,
       x.payload_max, x.created_at, x.updated_at, ` + healthColumns + `,
       EXISTS (SELECT FROM whctl.deliveries d WHERE d.state = 0 AND d.class = 16 AND d.destination_id = heads.id) AS suspects
FROM heads
JOIN whctl.destinations x ON x.id = heads.id
LEFT JOIN whctl.destination_health h ON h.destination_id = heads.id
ORDER BY heads.due, x.id
LIMIT $1`

// maxSurvey bounds a survey. As an argument it also lets the statement be prepared: making
// its plan takes longer than carrying it out for a few destinations.
const maxSurvey = 100_000

// Survey lists the destinations that have something due, leased or not, held or not, the
// one that has waited longest first, and says when something becomes due at another one.
func (s *Store) Survey(ctx context.Context) (work.Survey, error) {
	var v work.Survey
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		var rows []struct {
			AsOf time.Time `db:"as_of"`
			Head time.Time `db:"due"`
			destinationRow
		}
		v = work.Survey{}
		if err := tx.SelectContext(ctx, &rows, s.sql(surveySQL), maxSurvey); err != nil {
			return err
		}
		if len(rows) == 0 {
			return tx.GetContext(ctx, &v.AsOf, nowSQL)
		}
		for _, r := range rows {
			v.AsOf = r.AsOf
			if r.Head.After(r.AsOf) {
				v.NextDue = r.Head
				continue
			}
			v.Due = append(v.Due, r.destination())
		}
		return nil
	})
	if err != nil {
		return work.Survey{}, fmt.Errorf("find destinations with due deliveries: %w", err)
	}
	return v, nil
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
	Suspects    bool             `db:"suspects"` // only of surveySQL
	healthRow
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
		Health: r.health(r.ID), Suspects: r.Suspects,
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
