package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	detailSQL = `
SELECT d.id, e.delivery_id, e.destination, e.tenant, e.subject, e.event_type, e.event_version, e.event_id, e.event_at, e.not_after,
       coalesce(e.body, '') AS body, e.created_at, p.bytes, whctl.state_word(d.state, d.attempt_id) AS state, d.generation,
       d.attempts, d.next_attempt_at, split_part(d.lease_owner, '#', 1) AS lease_holder, d.lease_expires_at, d.attempt_id,
       d.started_at, coalesce(d.class, 0) AS class, coalesce(d.status, 0) AS status, coalesce(d.reason, 0) AS reason,
       coalesce(d.fingerprint, '') AS fingerprint, d.finished_at, now() AS as_of
FROM whctl.envelopes e
JOIN whctl.deliveries d ON d.id = e.id
JOIN whctl.payload_sizes p ON p.id = e.id
WHERE e.delivery_id = $1
LIMIT 1`

	// An attempt budget has its bound and redrives are made by people, so that the limit
	// is there for what nobody foresaw.
	historySQL = `
SELECT a.attempt_id, a.generation, a.attempt, split_part(a.worker, '#', 1) AS worker, a.started_at, a.finished_at, a.class,
       coalesce(a.status, 0) AS status, coalesce(a.latency_us, 0) AS latency_us, coalesce(a.message, '') AS message,
       coalesce(a.excerpt, '') AS excerpt
FROM whctl.attempts a
WHERE a.delivery_id = $1
ORDER BY a.generation, a.attempt
LIMIT 100000`

	actsSQL = `
SELECT l.at, l.operator, l.role, l.action, l.reason
FROM whctl.audit_log l
WHERE l.delivery_id = $1
ORDER BY l.at, l.id
LIMIT 10000`
)

type detailRow struct {
	ID             int64               `db:"id"`
	DeliveryID     string              `db:"delivery_id"`
	Destination    string              `db:"destination"`
	Tenant         string              `db:"tenant"`
	Subject        string              `db:"subject"`
	EventType      string              `db:"event_type"`
	EventVersion   string              `db:"event_version"`
	EventID        string              `db:"event_id"`
	EventAt        time.Time           `db:"event_at"`
	NotAfter       sql.NullTime        `db:"not_after"`
	Body           string              `db:"body"`
	CreatedAt      time.Time           `db:"created_at"`
	PayloadBytes   int64               `db:"bytes"`
	State          string              `db:"state"`
	Generation     int                 `db:"generation"`
	Attempts       int                 `db:"attempts"`
	NextAttemptAt  sql.NullTime        `db:"next_attempt_at"`
	LeaseHolder    sql.Null[string]    `db:"lease_holder"`
	LeaseExpiresAt sql.NullTime        `db:"lease_expires_at"`
	AttemptID      sql.Null[uuid.UUID] `db:"attempt_id"`
	StartedAt      sql.NullTime        `db:"started_at"`
	Class          int16               `db:"class"`
	Status         int                 `db:"status"`
	Reason         int16               `db:"reason"`
	Fingerprint    string              `db:"fingerprint"`
	FinishedAt     sql.NullTime        `db:"finished_at"`
	AsOf           time.Time           `db:"as_of"`
}

type attemptRow struct {
	AttemptID  uuid.UUID `db:"attempt_id"`
	Generation int       `db:"generation"`
	Attempt    int       `db:"attempt"`
	Worker     string    `db:"worker"`
	StartedAt  time.Time `db:"started_at"`
	FinishedAt time.Time `db:"finished_at"`
	Class      int16     `db:"class"`
	Status     int       `db:"status"`
	LatencyUS  int64     `db:"latency_us"`
	Message    string    `db:"message"`
	Excerpt    string    `db:"excerpt"`
}

type actRow struct {
	At       time.Time `db:"at"`
	Operator string    `db:"operator"`
	Role     string    `db:"role"`
	Action   string    `db:"action"`
	Reason   string    `db:"reason"`
}

// Details reads deliveries in one read-only transaction, in the order of ids. Those
// that do not exist are left out.
func (s *Store) Details(ctx context.Context, ids []string) ([]work.Detail, error) {
	var out []work.Detail
	// One snapshot: an attempt that ends between two statements would be seen twice.
	err := s.inTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, func(tx *sqlx.Tx) error {
		out = nil
		for _, id := range ids {
			d, err := s.detail(ctx, tx, id)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return fmt.Errorf("read delivery %s: %w", id, err)
			}
			out = append(out, d)
		}
		return nil
	})
	return out, err
}

func (s *Store) detail(ctx context.Context, tx *sqlx.Tx, id string) (work.Detail, error) {
	var row detailRow
	if err := tx.GetContext(ctx, &row, s.sql(detailSQL), id); err != nil {
		return work.Detail{}, err
	}
	var attempts []attemptRow
	if err := tx.SelectContext(ctx, &attempts, s.sql(historySQL), row.ID); err != nil {
		return work.Detail{}, err
	}
	var acts []actRow
	if err := tx.SelectContext(ctx, &acts, s.sql(actsSQL), row.DeliveryID); err != nil {
		return work.Detail{}, err
	}
	d := row.detail()
	for _, a := range attempts {
		d.History = append(d.History, work.Attempt{
			ID: a.AttemptID, Generation: a.Generation, Number: a.Attempt, Worker: a.Worker, StartedAt: a.StartedAt,
			FinishedAt: a.FinishedAt, Class: work.ClassOf(a.Class), Status: a.Status,
			Latency: time.Duration(a.LatencyUS) * time.Microsecond, Message: a.Message, Excerpt: a.Excerpt,
		})
	}
	if row.AttemptID.Valid {
		d.History = append(d.History, work.Attempt{
			ID: row.AttemptID.V, Generation: row.Generation, Number: row.Attempts, Worker: d.LeaseHolder, StartedAt: row.StartedAt.Time,
		})
	}
	for _, a := range acts {
		d.Acts = append(d.Acts, work.Act(a))
	}
	return d, nil
}

func (r detailRow) detail() work.Detail {
	return work.Detail{
		Envelope: work.Envelope{
			DeliveryID: r.DeliveryID, Destination: r.Destination, Tenant: r.Tenant, Subject: r.Subject, EventType: r.EventType,
			EventVersion: r.EventVersion, EventID: r.EventID, EventAt: r.EventAt, NotAfter: r.NotAfter.Time, Body: work.BodyKind(r.Body),
		},
		PayloadBytes: r.PayloadBytes, State: work.State(r.State), Generation: r.Generation, Attempts: r.Attempts,
		NextAttemptAt: r.NextAttemptAt.Time, LeaseHolder: r.LeaseHolder.V, LeaseExpiresAt: r.LeaseExpiresAt.Time,
		Class: work.ClassOf(r.Class), Status: r.Status, Reason: work.ReasonOf(r.Reason), Fingerprint: r.Fingerprint,
		CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt.Time, AsOf: r.AsOf,
	}
}
