package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	healthColumns = `h.failures, h.refusals, h.openings, h.refused_since, h.open_until, h.probe_until, h.held_until, h.next_slot,
       h.paused_at, h.paused_by, h.paused_reason`

	// By id, so that two that wait for several rows never wait for one another.
	lockHealthSQL = `
SELECT now() AS as_of, h.destination_id, ` + healthColumns + `
FROM whctl.destination_health h
WHERE h.destination_id = ANY($1::bigint[])
ORDER BY h.destination_id
FOR NO KEY UPDATE`

	// Those that nobody else holds.
	lockFreeHealthSQL = lockHealthSQL + ` SKIP LOCKED`

	saveHealthSQL = `
UPDATE whctl.destination_health h
SET failures = n.failures, refusals = n.refusals, openings = n.openings, refused_since = n.refused_since, open_until = n.open_until, probe_until = n.probe_until,
    held_until = n.held_until, next_slot = n.next_slot, paused_at = n.paused_at, paused_by = n.paused_by, paused_reason = n.paused_reason
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::timestamptz[],
            $9::timestamptz[], $10::text[], $11::text[], $12::timestamptz[])
  AS n(destination_id, failures, refusals, openings, open_until, probe_until, held_until, next_slot, paused_at, paused_by, paused_reason, refused_since)
WHERE h.destination_id = n.destination_id`
)

// healthRow is a row of whctl.destination_health; all NULL where a destination has none.
type healthRow struct {
	Failures     sql.Null[int]    `db:"failures"`
	Refusals     sql.Null[int]    `db:"refusals"`
	Openings     sql.Null[int]    `db:"openings"`
	RefusedSince sql.NullTime     `db:"refused_since"`
	OpenUntil    sql.NullTime     `db:"open_until"`
	ProbeUntil   sql.NullTime     `db:"probe_until"`
	HeldUntil    sql.NullTime     `db:"held_until"`
	NextSlot     sql.NullTime     `db:"next_slot"`
	PausedAt     sql.NullTime     `db:"paused_at"`
	PausedBy     sql.Null[string] `db:"paused_by"`
	PausedReason sql.Null[string] `db:"paused_reason"`
}

func (r healthRow) health(destination int64) work.Health {
	return work.Health{
		DestinationID: destination, Failures: r.Failures.V, Refusals: r.Refusals.V, Openings: r.Openings.V,
		RefusedSince: r.RefusedSince.Time,
		OpenUntil:    r.OpenUntil.Time, ProbeUntil: r.ProbeUntil.Time, HeldUntil: r.HeldUntil.Time, NextSlot: r.NextSlot.Time,
		Pause: work.Pause{At: r.PausedAt.Time, By: r.PausedBy.V, Reason: r.PausedReason.V},
	}
}

// lockedHealth are the rows of destinations that a transaction holds, and its clock.
type lockedHealth struct {
	asOf   time.Time
	health []work.Health // by id
}

// lockHealth locks by query the rows of destinations and reads them.
func (s *Store) lockHealth(ctx context.Context, tx *sqlx.Tx, query string, destinations []int64) (lockedHealth, error) {
	var rows []struct {
		AsOf          time.Time `db:"as_of"`
		DestinationID int64     `db:"destination_id"`
		healthRow
	}
	var l lockedHealth
	if err := tx.SelectContext(ctx, &rows, s.sql(query), pq.Array(destinations)); err != nil {
		return l, err
	}
	for _, r := range rows {
		l.asOf = r.AsOf
		l.health = append(l.health, r.health(r.DestinationID))
	}
	return l, nil
}

// saveHealth writes rows that the transaction holds.
func (s *Store) saveHealth(ctx context.Context, tx *sqlx.Tx, changed []work.Health) error {
	if len(changed) == 0 {
		return nil
	}
	var ids, failures, refusals, openings []int64
	var open, probe, held, slot, paused, refused []sql.NullTime
	var by, reason []sql.NullString
	for _, h := range changed {
		ids = append(ids, h.DestinationID)
		failures, refusals, openings = append(failures, int64(h.Failures)), append(refusals, int64(h.Refusals)), append(openings, int64(h.Openings))
		open, probe, held = append(open, moment(h.OpenUntil)), append(probe, moment(h.ProbeUntil)), append(held, moment(h.HeldUntil))
		slot, paused = append(slot, moment(h.NextSlot)), append(paused, moment(h.Pause.At))
		refused = append(refused, moment(h.RefusedSince))
		by, reason = append(by, nullable(h.Pause.By)), append(reason, nullable(h.Pause.Reason))
	}
	_, err := tx.ExecContext(ctx, s.sql(saveHealthSQL), pq.Array(ids), pq.Array(failures), pq.Array(refusals), pq.Array(openings),
		pq.Array(open), pq.Array(probe), pq.Array(held), pq.Array(slot), pq.Array(paused), pq.Array(by), pq.Array(reason), pq.Array(refused))
	return err
}

func moment(t time.Time) sql.NullTime { return sql.NullTime{Time: t, Valid: !t.IsZero()} }

// storedHealth is h as the database keeps it, to the microsecond. Down, never up: what begins
// then has begun when the database's clock says so.
func storedHealth(h work.Health) work.Health {
	for _, t := range []*time.Time{&h.RefusedSince, &h.OpenUntil, &h.ProbeUntil, &h.HeldUntil, &h.NextSlot, &h.Pause.At} {
		*t = t.Truncate(time.Microsecond)
	}
	return h
}

func sameHealth(a, b work.Health) bool {
	for _, t := range [][2]*time.Time{
		{&a.RefusedSince, &b.RefusedSince},
		{&a.OpenUntil, &b.OpenUntil},
		{&a.ProbeUntil, &b.ProbeUntil},
		{&a.HeldUntil, &b.HeldUntil},
		{&a.NextSlot, &b.NextSlot},
		{&a.Pause.At, &b.Pause.At},
	} {
		if t[0].Equal(*t[1]) {
			*t[1] = *t[0] // the same moment may be told in another zone
		}
	}
	return a == b
}

// Judge lets judge say what attempts mean for the health of their destinations, one
// after the other, while nobody else can, and keeps what it says. It may be called more
// than once for a trial, each time beginning with what is stored; only one counts. The
// answer is the health of all, by id; a destination that is gone is left out.
func (s *Store) Judge(ctx context.Context, trials []work.Trial, judge func(asOf time.Time, h work.Health, t work.Trial) work.Health) ([]work.Health, error) {
	var l lockedHealth
	if len(trials) == 0 {
		return nil, nil
	}
	err := s.certain(ctx, func(tx *sqlx.Tx) (err error) {
		if l, err = s.lockHealth(ctx, tx, lockHealthSQL, trialIDs(trials)); err != nil {
			return err
		}
		places := l.places()
		if err := s.deliveredSince(ctx, tx, trials, l.health, places); err != nil {
			return err
		}
		before := append([]work.Health(nil), l.health...)
		for _, t := range trials {
			if i, known := places[t.DestinationID]; known {
				l.health[i] = storedHealth(judge(l.asOf, l.health[i], t))
			}
		}
		return s.saveHealth(ctx, tx, changedHealth(before, l.health))
	})
	if err != nil {
		return nil, fmt.Errorf("judge the health of destinations: %w", err)
	}
	return l.health, nil
}

// What another worker delivered while refusals were counted. A worker that knows of those
// tells, and knows within a few seconds, so that older deliveries need not be looked for.
const deliveredSinceSQL = `
SELECT h.destination_id, l.finished_at
FROM whctl.destination_health h
CROSS JOIN LATERAL (
  SELECT d.finished_at FROM whctl.deliveries d
  WHERE d.state > 0 AND d.state = 1 AND d.destination_id = h.destination_id
    AND d.finished_at > greatest(h.refused_since, now() - interval '15 seconds')
  ORDER BY d.finished_at DESC, d.id DESC
  LIMIT 1) l
WHERE h.destination_id = ANY($1::bigint[]) AND h.refused_since IS NOT NULL
ORDER BY h.destination_id`

// deliveredSince looks for what other workers delivered while refusals were counted: they
// may not have known of those, and told nobody. places says where in health each stands.
func (s *Store) deliveredSince(ctx context.Context, tx *sqlx.Tx, trials []work.Trial, health []work.Health, places map[int64]int) error {
	var ids []int64
	for _, t := range trials {
		if slices.ContainsFunc(t.Outcomes, func(o work.Outcome) bool { return o.Class == work.Unauthorized }) {
			ids = append(ids, t.DestinationID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []struct {
		DestinationID int64     `db:"destination_id"`
		At            time.Time `db:"finished_at"`
	}
	if err := tx.SelectContext(ctx, &rows, s.sql(deliveredSinceSQL), pq.Array(ids)); err != nil {
		return err
	}
	for _, r := range rows {
		health[places[r.DestinationID]].DeliveredAt = r.At
	}
	return nil
}

func trialIDs(trials []work.Trial) []int64 {
	ids := make([]int64, len(trials))
	for i, t := range trials {
		ids[i] = t.DestinationID
	}
	return ids
}

// places says where each destination stands.
func (l lockedHealth) places() map[int64]int {
	places := make(map[int64]int, len(l.health))
	for i, h := range l.health {
		places[h.DestinationID] = i
	}
	return places
}

func changedHealth(before, after []work.Health) []work.Health {
	var changed []work.Health
	for i := range after {
		if !sameHealth(before[i], after[i]) {
			changed = append(changed, after[i])
		}
	}
	return changed
}
