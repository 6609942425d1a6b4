package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// finishedBefore is what a cutoff is about, the same for a preview and for the deed: a
// delivery d in the state t.state came to its end before the cutoff $1; one that was
// delivered, also before $2, behind which a duplicate may yet come.
const finishedBefore = `d.state = t.state AND d.state > 0
  AND d.finished_at < CASE WHEN t.state = 1 THEN least($1::timestamptz, $2::timestamptz) ELSE $1::timestamptz END`

// finished are the deliveries that a cutoff is about, in the states $3.
const finished = `unnest($3::smallint[]) AS t(state) JOIN whctl.deliveries d ON ` + finishedBefore

const (
	// knowPolicySQL makes the version known; what it says of itself stays as it is.
	knowPolicySQL = `
INSERT INTO whctl.retention_policies (policy, version, definition, keep_us) VALUES ($1, $2, $3, $4)
ON CONFLICT (policy, version) DO NOTHING`

	// lockPolicySQL keeps other runs from beginning a sweep of the same policy meanwhile.
	lockPolicySQL = `
SELECT FROM whctl.retention_policies r WHERE r.policy = $1 ORDER BY r.version FOR NO KEY UPDATE`

	retentionVersionsSQL = `
SELECT r.version, r.definition, r.keep_us, r.previewed_at, r.swept_at
FROM whctl.retention_policies r
WHERE r.policy = $1
ORDER BY r.version
LIMIT 10000`

	// openSweepSQL finds the sweep that a run with the same age or the same instant left.
	openSweepSQL = `
SELECT s.id, s.cutoff, s.protect_from, s.states, s.batches, s.finished_at, s.held_by, s.held_until > now() AS held, now() AS as_of
FROM whctl.sweeps s
WHERE s.policy = $1 AND s.version = $2
  AND CASE WHEN $3::bigint = 0 THEN s.cutoff = $4 ELSE s.age_us = $3::bigint AND s.finished_at IS NULL END
ORDER BY s.cutoff, s.id
LIMIT 1
FOR NO KEY UPDATE`

	instantsSQL = `
SELECT now() AS as_of, CASE WHEN $1::bigint = 0 THEN $2::timestamptz ELSE now() - $1::bigint * interval '1 microsecond' END AS cutoff,
       now() - $3::bigint * interval '1 microsecond' AS protect_from`

	// placeSQL is where a sweep begins: one of attempts, behind what an earlier one has done.
	placeSQL = `
SELECT coalesce(max(s.cutoff), '0001-01-01 00:00:00+00') FROM whctl.sweeps s
WHERE s.policy = $1 AND s.target = 'attempts' AND s.finished_at IS NOT NULL AND s.skipped = 0 AND $2::text = 'attempts'`

	anyLeftSQL = `
SELECT EXISTS (SELECT FROM ` + finished + ` WHERE (d.finished_at, d.id) > ($4, $5))`

	countLeftSQL = `
SELECT count(*) FROM (SELECT FROM ` + finished + ` WHERE (d.finished_at, d.id) > ($4, $5) LIMIT $6) c`

	countAllSQL = `SELECT count(*) FROM whctl.deliveries`

	beginSweepSQL = `
INSERT INTO whctl.sweeps AS s (policy, version, cutoff, protect_from, target, states, age_us, place_at, place_id)
VALUES ($1, $2, $3, $4, $5, $6, nullif($7::bigint, 0), $8, 0)
RETURNING s.id`

	// reopenSweepSQL begins a sweep again that was made with fewer states, or that has
	// something left after all; its batches stay.
	reopenSweepSQL = `
UPDATE whctl.sweeps s
SET states = $2, protect_from = $3, place_at = '0001-01-01 00:00:00+00', place_id = 0, finished_at = NULL
WHERE s.id = $1`

	// narrowSweepSQL leaves alone from now on what a run does not ask for, and what the window
	// reaches back to by now. A run that asks for more states again widens the sweep.
	narrowSweepSQL = `
UPDATE whctl.sweeps s SET states = $2, protect_from = $3 WHERE s.id = $1`

	holdSweepSQL = `
UPDATE whctl.sweeps s SET held_by = $2, held_until = now() + $3::bigint * interval '1 microsecond' WHERE s.id = $1`

	// ranSQL: only what went as far as the policy says was a sweep by its version.
	ranSQL = `
UPDATE whctl.retention_policies r
SET swept_at = CASE WHEN $4 THEN now() ELSE r.swept_at END, runs = r.runs + 1, idle_runs = r.idle_runs + $3::boolean::int
WHERE r.policy = $1 AND r.version = $2`

	// finishSweepSQL ends a sweep only where nothing is behind its place: another run may have
	// widened it meanwhile.
	finishSweepSQL = `
UPDATE whctl.sweeps s
SET finished_at = CASE WHEN $3 AND NOT EXISTS (
      SELECT FROM unnest(s.states) AS t(state)
      JOIN whctl.deliveries d ON d.state = t.state AND d.state > 0
       AND d.finished_at < CASE WHEN t.state = 1 THEN least(s.cutoff, s.protect_from) ELSE s.cutoff END
      WHERE (d.finished_at, d.id) > (s.place_at, s.place_id)) THEN coalesce(s.finished_at, now()) ELSE s.finished_at END,
    held_by = NULL, held_until = NULL
WHERE s.id = $1 AND (s.held_by = $2 OR $3)`

	// quietlySQL: where the statistics are old the planner would rather read a whole table.
	quietlySQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('lock_timeout', '5s', true)`
)

// begunFor is how long a sweep that has just been begun counts as being worked at.
const begunFor = 30 * time.Second

// stateCodes are the numbers of the states that a sweep may meet.
var stateCodes = map[work.State]int64{work.Delivered: 1, work.Dead: 2, work.Cancelled: 3, work.Discarded: 4}

func statesArray(states []work.State) any {
	codes := make([]int64, len(states))
	for i, s := range states {
		codes[i] = stateCodes[s]
	}
	return pq.Array(codes)
}

type versionRow struct {
	Version     int          `db:"version"`
	Definition  string       `db:"definition"`
	KeepUS      int64        `db:"keep_us"`
	PreviewedAt sql.NullTime `db:"previewed_at"`
	SweptAt     sql.NullTime `db:"swept_at"`
}

type openSweepRow struct {
	ID         int64            `db:"id"`
	Cutoff     time.Time        `db:"cutoff"`
	Protect    time.Time        `db:"protect_from"`
	States     pq.Int64Array    `db:"states"`
	Batches    int              `db:"batches"`
	FinishedAt sql.NullTime     `db:"finished_at"`
	HeldBy     sql.Null[string] `db:"held_by"`
	Held       sql.NullBool     `db:"held"`
	AsOf       time.Time        `db:"as_of"`
}

// BeginSweep begins a sweep, or takes up the one that an earlier run with the same age or
// instant did not end. One that would remove nothing is not begun: its id is 0.
func (s *Store) BeginSweep(ctx context.Context, r work.SweepRequest) (work.Sweep, error) {
	var sweep work.Sweep
	err := s.certain(ctx, func(tx *sqlx.Tx) (err error) {
		sweep, err = s.beginSweep(ctx, tx, r)
		return err
	})
	if errors.Is(err, work.ErrUsage) {
		return work.Sweep{}, err
	}
	if err != nil {
		return work.Sweep{}, fmt.Errorf("begin a sweep by policy %s: %w", r.Policy.Name, err)
	}
	return sweep, nil
}

func (s *Store) beginSweep(ctx context.Context, tx *sqlx.Tx, r work.SweepRequest) (work.Sweep, error) {
	if _, err := tx.ExecContext(ctx, quietlySQL); err != nil {
		return work.Sweep{}, err
	}
	versions, err := s.knowPolicy(ctx, tx, r.Policy)
	if err != nil {
		return work.Sweep{}, err
	}
	if err := r.Judge(versions); err != nil {
		return work.Sweep{}, err
	}
	sweep := work.Sweep{Policy: r.Policy.Name, Version: r.Policy.Version, Target: r.Policy.Target, States: r.Reach.States(r.Policy)}
	var row openSweepRow
	err = tx.GetContext(ctx, &row, s.sql(openSweepSQL), r.Policy.Name, r.Policy.Version, r.Reach.Age.Microseconds(), r.Reach.Before)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = s.newSweep(ctx, tx, r, &sweep)
	case err == nil:
		err = s.carryOn(ctx, tx, r, row, &sweep)
	}
	if err != nil {
		return work.Sweep{}, err
	}
	idle := sweep.ID == 0 || sweep.Finished
	if !idle {
		if _, err := tx.ExecContext(ctx, s.sql(holdSweepSQL), sweep.ID, r.Owner, begunFor.Microseconds()); err != nil {
			return work.Sweep{}, err
		}
	}
	_, err = tx.ExecContext(ctx, s.sql(ranSQL), r.Policy.Name, r.Policy.Version, idle, !r.Reach.ByHand)
	return sweep, err
}

// knowPolicy puts the version on record, and answers with all that are.
func (s *Store) knowPolicy(ctx context.Context, tx *sqlx.Tx, p work.Retention) ([]work.RetentionVersion, error) {
	if _, err := tx.ExecContext(ctx, s.sql(knowPolicySQL), p.Name, p.Version, p.Definition(), p.Keep.Microseconds()); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, s.sql(lockPolicySQL), p.Name); err != nil {
		return nil, err
	}
	var rows []versionRow
	if err := tx.SelectContext(ctx, &rows, s.sql(retentionVersionsSQL), p.Name); err != nil {
		return nil, err
	}
	return versions(rows), nil
}

// carryOn takes a sweep up where the last run left it.
func (s *Store) carryOn(ctx context.Context, tx *sqlx.Tx, r work.SweepRequest, row openSweepRow, sweep *work.Sweep) error {
	sweep.ID, sweep.Cutoff, sweep.Protect, sweep.AsOf = row.ID, row.Cutoff, row.Protect, row.AsOf
	sweep.Batches, sweep.Finished = row.Batches, row.FinishedAt.Valid
	if r.Alone && row.Held.Bool && row.HeldBy.V != r.Owner {
		return fmt.Errorf("%w: %s works at the sweep of policy %s with the cutoff %s", work.ErrBusy, row.HeldBy.V, r.Policy.Name, row.Cutoff.UTC().Format(time.RFC3339Nano))
	}
	lacks := func(known, some []work.State) bool {
		return slices.ContainsFunc(some, func(state work.State) bool { return !slices.Contains(known, state) })
	}
	begun := make([]work.State, len(row.States))
	for i, code := range row.States {
		begun[i] = stateOf(int16(code)) //nolint:gosec // the column is a smallint[]
	}
	protect := row.AsOf.Add(-r.Reach.Window)
	if sweep.Target == work.TargetAttempts {
		protect = row.Cutoff
	}
	all := []any{row.Cutoff, protect, statesArray(sweep.States), time.Time{}, 0}
	again := lacks(begun, sweep.States)
	if sweep.Finished && !again && sweep.Target == work.TargetDeliveries {
		if err := tx.GetContext(ctx, &again, s.sql(anyLeftSQL), all...); err != nil {
			return err
		}
	}
	if again {
		sweep.Finished, sweep.Protect = false, protect
		if err := s.admit(ctx, tx, r, all); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.sql(reopenSweepSQL), row.ID, statesArray(sweep.States), protect)
		return err
	}
	if sweep.Finished {
		return nil
	}
	if protect.Before(row.Protect) {
		sweep.Protect = protect
	}
	_, err := tx.ExecContext(ctx, s.sql(narrowSweepSQL), row.ID, statesArray(sweep.States), sweep.Protect)
	return err
}

func (s *Store) newSweep(ctx context.Context, tx *sqlx.Tx, r work.SweepRequest, sweep *work.Sweep) error {
	at, err := readInstants(ctx, tx, r.Policy.Target, r.Reach)
	if err != nil {
		return err
	}
	sweep.AsOf, sweep.Cutoff, sweep.Protect = at.AsOf, at.Cutoff, at.Protect
	var place time.Time
	if err := tx.GetContext(ctx, &place, s.sql(placeSQL), r.Policy.Name, r.Policy.Target); err != nil {
		return err
	}
	reach := []any{sweep.Cutoff, sweep.Protect, statesArray(sweep.States), place, 0}
	var some bool
	if err := tx.GetContext(ctx, &some, s.sql(anyLeftSQL), reach...); err != nil || !some {
		return err
	}
	if err := s.admit(ctx, tx, r, reach); err != nil {
		return err
	}
	return tx.GetContext(ctx, &sweep.ID, s.sql(beginSweepSQL), sweep.Policy, sweep.Version, sweep.Cutoff, sweep.Protect, sweep.Target,
		statesArray(sweep.States), r.Reach.Age.Microseconds(), place)
}

// admit asks whether the sweep may remove as much as it would.
func (s *Store) admit(ctx context.Context, tx *sqlx.Tx, r work.SweepRequest, reach []any) error {
	if r.Policy.MaxRows == 0 && r.Policy.MaxFraction == 0 {
		return nil
	}
	limit := sql.Null[int64]{V: r.Policy.MaxRows + 1, Valid: r.Policy.MaxFraction == 0} // NULL: all of them
	var candidates, total int64
	if err := tx.GetContext(ctx, &candidates, s.sql(countLeftSQL), append(reach, limit)...); err != nil {
		return err
	}
	if r.Policy.MaxFraction > 0 {
		if err := tx.GetContext(ctx, &total, s.sql(countAllSQL)); err != nil {
			return err
		}
	}
	return r.Admit(candidates, total)
}

// EndSweep says that this run has left a sweep; done, that nothing is behind its place.
func (s *Store) EndSweep(ctx context.Context, sweep work.Sweep, owner string, done bool) error {
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, quietlySQL); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.sql(finishSweepSQL), sweep.ID, owner, done)
		return err
	})
	if err != nil {
		return fmt.Errorf("end the sweep of policy %s: %w", sweep.Policy, err)
	}
	return nil
}

const restSQL = `
SELECT (SELECT count(*) FROM (
          SELECT FROM ` + finished + `
          WHERE $4::text = 'deliveries' OR (d.finished_at, d.id) > (SELECT s.place_at, s.place_id FROM whctl.sweeps s WHERE s.id = $5)
          LIMIT $6) c) AS remaining,
       (SELECT count(*) FROM (
          SELECT FROM whctl.deliveries d
          WHERE 1 = ANY ($3) AND d.state = 1 AND d.state > 0 AND d.finished_at >= $2 AND d.finished_at < $1
          LIMIT $6) c) AS "window"`

// Rest counts what a sweep has still before it, and what it leaves alone, each up to most.
func (s *Store) Rest(ctx context.Context, sweep work.Sweep, most int64) (work.Rest, error) {
	var rest work.Rest
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, quietlySQL); err != nil {
			return err
		}
		return tx.GetContext(ctx, &rest, s.sql(restSQL), sweep.Cutoff, sweep.Protect, statesArray(sweep.States), sweep.Target, sweep.ID, most)
	})
	if err != nil {
		return work.Rest{}, fmt.Errorf("count what the sweep of policy %s has before it: %w", sweep.Policy, err)
	}
	return rest, nil
}

// instants are what a reach means by the database's clock.
type instants struct {
	AsOf    time.Time `db:"as_of"`
	Cutoff  time.Time `db:"cutoff"`
	Protect time.Time `db:"protect_from"`
}

// readInstants fixes the cutoff of a reach. One in the future is work.ErrUsage.
func readInstants(ctx context.Context, tx *sqlx.Tx, target work.Target, r work.Reach) (instants, error) {
	var at instants
	if err := tx.GetContext(ctx, &at, instantsSQL, r.Age.Microseconds(), r.Before, r.Window.Microseconds()); err != nil {
		return at, err
	}
	if at.Cutoff.After(at.AsOf) {
		return at, fmt.Errorf("%w: the cutoff %s is in the future by the database's clock", work.ErrUsage, at.Cutoff.UTC().Format(time.RFC3339Nano))
	}
	if target == work.TargetAttempts {
		at.Protect = at.Cutoff // no duplicate is told by attempts
	}
	return at, nil
}
