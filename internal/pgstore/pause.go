package pgstore

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	lockNamedHealthSQL = `
SELECT h.destination_id, h.paused_at
FROM whctl.destinations x
JOIN whctl.destination_health h ON h.destination_id = x.id
WHERE x.name = $1
FOR NO KEY UPDATE OF h`

	pauseSQL = `
UPDATE whctl.destination_health h SET paused_at = now(), paused_by = $2, paused_reason = $3
WHERE h.destination_id = $1`

	// What the receiver asked for (held_until) and the rate (next_slot) stand: no person
	// can mend those.
	resumeSQL = `
UPDATE whctl.destination_health h
SET paused_at = NULL, paused_by = NULL, paused_reason = NULL,
    failures = 0, refusals = 0, refused_since = NULL, openings = 0, open_until = NULL, probe_until = NULL
WHERE h.destination_id = $1`

	auditDestinationSQL = `
INSERT INTO whctl.audit_log (operator, action, reason, destination) VALUES ($1, $2, $3, $4)`

	wakeSQL = `SELECT pg_notify($1, '')`
)

// PauseDestination holds back what goes to a destination, and puts that on record. Paused
// says that it already was: now it is by another hand and for another reason. An unknown
// name is work.ErrNotFound.
func (s *Store) PauseDestination(ctx context.Context, a work.DestinationAct) (paused bool, err error) {
	return s.actOnDestination(ctx, "pause", a, func(tx *sqlx.Tx, id int64) error {
		_, err := tx.ExecContext(ctx, s.sql(pauseSQL), id, a.Operator, a.Reason)
		return err
	})
}

// ResumeDestination lets a destination's deliveries go again, and forgets what had gone
// wrong there: a person says that it is mended. It puts that on record, and wakes the
// workers. Paused says that it was. An unknown name is work.ErrNotFound.
func (s *Store) ResumeDestination(ctx context.Context, a work.DestinationAct) (paused bool, err error) {
	return s.actOnDestination(ctx, "resume", a, func(tx *sqlx.Tx, id int64) error {
		if _, err := tx.ExecContext(ctx, s.sql(resumeSQL), id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, wakeSQL, dueChannel(s.schema))
		return err
	})
}

func (s *Store) actOnDestination(ctx context.Context, action string, a work.DestinationAct, act func(tx *sqlx.Tx, id int64) error) (paused bool, err error) {
	err = s.certain(ctx, func(tx *sqlx.Tx) error {
		var row struct {
			ID       int64        `db:"destination_id"`
			PausedAt sql.NullTime `db:"paused_at"`
		}
		if err := tx.GetContext(ctx, &row, s.sql(lockNamedHealthSQL), a.Name); err != nil {
			return err
		}
		paused = row.PausedAt.Valid
		if err := act(tx, row.ID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.sql(auditDestinationSQL), a.Operator, action, a.Reason, a.Name)
		return err
	})
	if err != nil {
		return false, destinationFault(action, a.Name, err)
	}
	return paused, nil
}
