package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	archivedSQL = `
SELECT d.id, e.delivery_id, e.destination, e.tenant, e.subject, e.event_type, e.event_version, e.event_id, e.event_at, e.not_after,
       coalesce(e.body, '') AS body, e.payload, e.created_at, d.finished_at, whctl.state_word(d.state, d.attempt_id) AS state, d.generation,
       d.attempts, coalesce(d.class, 0) AS class, coalesce(d.status, 0) AS status, coalesce(d.reason, 0) AS reason,
       coalesce(d.fingerprint, '') AS fingerprint
FROM whctl.deliveries d
JOIN whctl.envelopes e ON e.id = d.id
WHERE d.id = ANY ($1)
ORDER BY d.finished_at, d.id`

	archivedAttemptsSQL = `
SELECT a.delivery_id AS id, a.attempt_id, a.generation, a.attempt, a.worker, a.started_at, a.finished_at, a.class, coalesce(a.status, 0) AS status,
       coalesce(a.latency_us, 0) AS latency_us, coalesce(a.message, '') AS message, coalesce(a.excerpt, '') AS excerpt
FROM whctl.attempts a
WHERE a.delivery_id = ANY ($1)
ORDER BY a.delivery_id, a.generation, a.attempt`
)

// archived reads all that a batch is about to remove.
func (s *Store) archived(ctx context.Context, tx *sqlx.Tx, ids []int64) ([]work.Archived, error) {
	rows, err := tx.QueryContext(ctx, s.sql(archivedSQL), pq.Array(ids))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := make([]work.Archived, 0, len(ids))
	place := make(map[int64]int, len(ids))
	for rows.Next() {
		var (
			id            int64
			a             work.Archived
			notAfter      sql.NullTime
			body          string
			state         string
			class, reason int16
		)
		err := rows.Scan(&id, &a.DeliveryID, &a.Destination, &a.Tenant, &a.Subject, &a.EventType, &a.EventVersion, &a.EventID, &a.EventAt, &notAfter,
			&body, &a.Payload, &a.CreatedAt, &a.FinishedAt, &state, &a.Generation, &a.Attempts, &class, &a.Status, &reason, &a.Fingerprint)
		if err != nil {
			return nil, err
		}
		a.NotAfter, a.Body, a.State, a.Class, a.Reason = notAfter.Time, work.BodyKind(body), work.State(state), work.ClassOf(class), work.ReasonOf(reason)
		place[id] = len(out)
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(out) != len(ids) {
		return nil, fmt.Errorf("%d of %d deliveries have no envelope, so that they cannot be archived; see: whctl sweep verify", len(ids)-len(out), len(ids))
	}
	return out, s.archivedAttempts(ctx, tx, ids, out, place)
}

func (s *Store) archivedAttempts(ctx context.Context, tx *sqlx.Tx, ids []int64, out []work.Archived, place map[int64]int) error {
	rows, err := tx.QueryContext(ctx, s.sql(archivedAttemptsSQL), pq.Array(ids))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			id        int64
			attemptID uuid.UUID
			a         work.Attempt
			class     int16
			latency   int64
		)
		if err := rows.Scan(&id, &attemptID, &a.Generation, &a.Number, &a.Worker, &a.StartedAt, &a.FinishedAt, &class, &a.Status, &latency, &a.Message, &a.Excerpt); err != nil {
			return err
		}
		a.ID, a.Class, a.Latency = attemptID, work.ClassOf(class), time.Duration(latency)*time.Microsecond
		to := &out[place[id]]
		to.History = append(to.History, a)
	}
	return rows.Err()
}
