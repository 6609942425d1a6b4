package pgstore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	// restoringSQL lets deliveries begin as finished ones, as long as the transaction lasts.
	restoringSQL = `SELECT set_config('whctl.restore', 'on', true), set_config('whctl.operator', $1, true)`

	// restoreSQL puts finished deliveries back. They finished now as far as retention goes, or
	// the next sweep would take them again. What is there, by its id or its logical key, stays.
	restoreSQL = `
WITH r AS MATERIALIZED (
  SELECT r.n, x.id AS destination_id, r.delivery_id, r.destination, r.tenant, r.subject, r.event_type, r.event_version, r.event_id, r.event_at,
         r.not_after, r.body, r.payload, r.created_at, r.state, r.generation, r.attempts, r.class, r.status, r.reason, r.fingerprint
  FROM json_to_recordset($1::json) AS r(n integer, delivery_id text, destination text, tenant text, subject text, event_type text, event_version text,
         event_id text, event_at timestamptz, not_after timestamptz, body text, payload text, created_at timestamptz, state smallint, generation integer,
         attempts integer, class smallint, status smallint, reason smallint, fingerprint text)
  LEFT JOIN whctl.destinations x ON x.name = r.destination),
e AS (
  INSERT INTO whctl.envelopes AS e (delivery_id, destination, tenant, subject, event_type, event_version, event_id, event_at, not_after, body, payload, created_at)
  SELECT r.delivery_id, r.destination, r.tenant, r.subject, r.event_type, r.event_version, r.event_id, r.event_at, r.not_after, r.body,
         decode(r.payload, 'base64'), r.created_at
  FROM r
  WHERE r.destination_id IS NOT NULL
  ORDER BY r.n
  ON CONFLICT DO NOTHING
  RETURNING e.id, e.delivery_id),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, state, finished_at, generation, attempts, class, status, reason, fingerprint)
  SELECT e.id, r.destination_id, r.state, now(), r.generation, r.attempts, r.class, r.status, r.reason, r.fingerprint
  FROM e
  JOIN r ON r.delivery_id = e.delivery_id),
a AS (
  INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, latency_us, generation, attempt, class, status, worker, message, excerpt)
  SELECT e.id, h.attempt_id, h.started_at, h.finished_at, h.latency_us, h.generation, h.attempt, h.class, h.status, h.worker, h.message, h.excerpt
  FROM e
  JOIN json_to_recordset($2::json) AS h(delivery_id text, attempt_id uuid, started_at timestamptz, finished_at timestamptz, latency_us bigint,
         generation integer, attempt integer, class smallint, status smallint, worker text, message text, excerpt text) ON h.delivery_id = e.delivery_id),
l AS (
  INSERT INTO whctl.audit_log (operator, action, reason, delivery_id)
  SELECT coalesce(nullif(current_setting('whctl.operator', true), ''), session_user), 'restore', $3, e.delivery_id FROM e)
SELECT r.delivery_id, e.id IS NOT NULL AS restored, r.destination_id IS NOT NULL AS has_destination
FROM r
LEFT JOIN e ON e.delivery_id = r.delivery_id
ORDER BY r.n`
)

type restoreRow struct {
	N            int        `json:"n"`
	DeliveryID   string     `json:"delivery_id"`
	Destination  string     `json:"destination"`
	Tenant       string     `json:"tenant"`
	Subject      string     `json:"subject"`
	EventType    string     `json:"event_type"`
	EventVersion string     `json:"event_version"`
	EventID      string     `json:"event_id"`
	EventAt      time.Time  `json:"event_at"`
	NotAfter     *time.Time `json:"not_after"`
	Body         *string    `json:"body"`
	Payload      string     `json:"payload"` // base64
	CreatedAt    time.Time  `json:"created_at"`
	State        int64      `json:"state"`
	Generation   int        `json:"generation"`
	Attempts     int        `json:"attempts"`
	Class        *int16     `json:"class"`
	Status       *int       `json:"status"`
	Reason       *int16     `json:"reason"`
	Fingerprint  *string    `json:"fingerprint"`
}

type restoreAttempt struct {
	DeliveryID string    `json:"delivery_id"`
	AttemptID  uuid.UUID `json:"attempt_id"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	LatencyUS  *int64    `json:"latency_us"`
	Generation int       `json:"generation"`
	Attempt    int       `json:"attempt"`
	Class      int16     `json:"class"`
	Status     *int      `json:"status"`
	Worker     string    `json:"worker"`
	Message    *string   `json:"message"`
	Excerpt    *string   `json:"excerpt"`
}

// Restore puts archived deliveries back as finished ones, and that on record; all of them
// in one transaction. It says what became of each, in their order.
func (s *Store) Restore(ctx context.Context, rows []work.Archived, reason, operator string) ([]work.Restored, error) {
	deliveries, attempts, err := restoreDocuments(rows)
	if err != nil {
		return nil, err
	}
	var found []struct {
		DeliveryID     string `db:"delivery_id"`
		Restored       bool   `db:"restored"`
		HasDestination bool   `db:"has_destination"`
	}
	err = s.certain(ctx, func(tx *sqlx.Tx) error {
		found = nil
		if _, err := tx.ExecContext(ctx, s.sql(restoringSQL), operator); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &found, s.sql(restoreSQL), deliveries, attempts, reason)
	})
	if err != nil {
		return nil, fmt.Errorf("restore %d deliveries: %w", len(rows), err)
	}
	out := make([]work.Restored, len(found))
	for i, f := range found {
		out[i] = work.Restored{DeliveryID: f.DeliveryID, Destination: rows[i].Destination}
		switch {
		case !f.HasDestination:
			out[i].Result = work.RestoreNoDestination
		case f.Restored:
			out[i].Result = work.RestoreDone
		default:
			out[i].Result = work.RestoreExists
		}
	}
	return out, nil
}

func restoreDocuments(rows []work.Archived) (deliveries, attempts string, err error) {
	ds, as := make([]restoreRow, 0, len(rows)), make([]restoreAttempt, 0, len(rows))
	for n, r := range rows {
		d := restoreRow{
			N: n, DeliveryID: r.DeliveryID, Destination: r.Destination, Tenant: r.Tenant, Subject: r.Subject, EventType: r.EventType,
			EventVersion: r.EventVersion, EventID: r.EventID, EventAt: r.EventAt, Body: pointer(string(r.Body)), Payload: base64.StdEncoding.EncodeToString(r.Payload),
			CreatedAt: r.CreatedAt, State: stateCodes[r.State], Generation: r.Generation, Attempts: r.Attempts, Class: pointer(r.Class.Code()),
			Status: pointer(r.Status), Reason: pointer(r.Reason.Code()), Fingerprint: pointer(r.Fingerprint),
		}
		if !r.NotAfter.IsZero() {
			d.NotAfter = &r.NotAfter
		}
		ds = append(ds, d)
		for _, a := range r.History {
			as = append(as, restoreAttempt{
				DeliveryID: r.DeliveryID, AttemptID: a.ID, StartedAt: a.StartedAt, FinishedAt: a.FinishedAt, LatencyUS: pointer(a.Latency.Microseconds()),
				Generation: a.Generation, Attempt: a.Number, Class: a.Class.Code(), Status: pointer(a.Status), Worker: a.Worker,
				Message: pointer(a.Message), Excerpt: pointer(a.Excerpt),
			})
		}
	}
	d, err := json.Marshal(ds)
	if err != nil {
		return "", "", err
	}
	a, err := json.Marshal(as)
	return string(d), string(a), err
}

// pointer is nil for the zero value, which the tables keep as NULL.
func pointer[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
