package pgstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	// lateRowSQL locks the delivery of a result that the fence refused.
	lateRowSQL = `
SELECT d.state, d.attempt_id FROM whctl.deliveries d WHERE d.id = $1 FOR UPDATE`

	lateAttemptSQL = `
SELECT a.class FROM whctl.attempts a WHERE a.delivery_id = $1 AND a.attempt_id = $2`

	// lateTruthSQL lets a lost attempt become its true result.
	lateTruthSQL = `
UPDATE whctl.attempts a
SET class = $3, status = $4, latency_us = $5, message = nullif($6, ''), excerpt = nullif($7, ''), finished_at = now()
WHERE a.delivery_id = $1 AND a.attempt_id = $2 AND a.class = $8`

	// lateOpenSQL closes the attempt that is open on the row: as class $3, which is the
	// true result for the attempt's own worker and lost for another's.
	lateOpenSQL = `
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, latency_us, generation, attempt, class, status, worker, message, excerpt)
SELECT d.id, d.attempt_id, d.started_at, $4, d.generation, d.attempts, $3, $5, CASE WHEN $2 = '' THEN d.lease_owner ELSE $2 END,
       nullif($6, ''), nullif($7, '')
FROM whctl.deliveries d
WHERE d.id = $1 AND d.attempt_id IS NOT NULL`

	// lateDeliveredSQL moves a delivery that is scheduled, leased or dead.
	lateDeliveredSQL = `
UPDATE whctl.deliveries d
SET state = 1, finished_at = now(), next_attempt_at = NULL, class = $2, status = $3, reason = NULL, fingerprint = NULL,
    lease_owner = NULL, lease_expires_at = NULL, attempt_id = NULL
WHERE d.id = $1 AND d.state IN (0, 2)`
)

// recordLate looks at a result that the fence refused. Either it was written by an
// earlier try of the same call, or the lease was taken over meanwhile: then a success
// still counts, and anything else changes nothing.
func (s *Store) recordLate(ctx context.Context, owner string, r work.Result) (work.Fate, error) {
	fate := work.Written
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		var err error
		fate, err = s.late(ctx, tx, owner, r)
		return err
	})
	return fate, err
}

func (s *Store) late(ctx context.Context, tx *sqlx.Tx, owner string, r work.Result) (work.Fate, error) {
	var row struct {
		State     int16               `db:"state"`
		AttemptID sql.Null[uuid.UUID] `db:"attempt_id"`
	}
	err := tx.GetContext(ctx, &row, s.sql(lateRowSQL), r.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return work.Late, nil // swept
	}
	if err != nil {
		return 0, err
	}
	var class int16
	err = tx.GetContext(ctx, &class, s.sql(lateAttemptSQL), r.ID, r.AttemptID)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	open := row.AttemptID.Valid && row.AttemptID.V == r.AttemptID // taken over, and not closed yet
	switch {
	case known && class == r.Outcome.Class.Code():
		return work.Written, nil
	case r.Outcome.Class == "" && !known && !open:
		return work.Written, nil // given back or cancelled: a repeat finds nothing to do
	case r.Outcome.Class != work.OK, known && class != work.Lost.Code(), !known && !open:
		return work.Late, nil
	}
	return s.lateSuccess(ctx, tx, owner, r, row.AttemptID.Valid, known)
}

// lateSuccess records a success whose lease was taken over. closed: the attempt stands
// already, as lost; leased: an attempt is open on the row, this one or another's.
func (s *Store) lateSuccess(ctx context.Context, tx *sqlx.Tx, owner string, r work.Result, leased, closed bool) (work.Fate, error) {
	o := r.Outcome
	latency := o.Latency.Microseconds()
	if closed {
		_, err := tx.ExecContext(ctx, s.sql(lateTruthSQL), r.ID, r.AttemptID, o.Class.Code(), o.Status, latency, o.Message, o.Excerpt, work.Lost.Code())
		if err != nil {
			return 0, err
		}
	}
	if leased {
		args := []any{r.ID, workerOf(r, owner), o.Class.Code(), latency, o.Status, o.Message, o.Excerpt}
		if closed {
			args = []any{r.ID, "", work.Lost.Code(), nil, nil, "taken over; an earlier attempt had succeeded", ""}
		}
		if _, err := tx.ExecContext(ctx, s.sql(lateOpenSQL), args...); err != nil {
			return 0, err
		}
	}
	res, err := tx.ExecContext(ctx, s.sql(lateDeliveredSQL), r.ID, o.Class.Code(), o.Status)
	if err != nil {
		return 0, err
	}
	if moved, err := res.RowsAffected(); err != nil || moved == 0 {
		return work.Late, err // cancelled, discarded or delivered already: the success is on record only
	}
	return work.LateOK, nil
}
