package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

// silence is how long nothing is heard of a worker before the others take it for gone.
const silence = 3 * time.Second

const (
	seenSQL = `UPDATE whctl.workers SET seen_at = now(), waiting = $2 WHERE owner = $1`

	enterSQL = `INSERT INTO whctl.workers (owner, waiting) VALUES ($1, $2) ON CONFLICT DO NOTHING`

	// A worker that is just claiming holds its row and is left alone: it is alive.
	silentSQL = `
SELECT w.owner FROM whctl.workers w
WHERE w.seen_at < now() - $2 * interval '1 second' AND w.owner <> $1
ORDER BY w.owner LIMIT 100
FOR UPDATE SKIP LOCKED`

	leaveSQL = `DELETE FROM whctl.workers WHERE owner = $1`

	dropSharesSQL = `DELETE FROM whctl.shares WHERE owner = $1 AND expires_at IS NULL`

	// The live leases of one owner, counted through the due index, for no index knows
	// owners: what is leased has been due, where it has a share, and was the oldest then,
	// so that 200,000 rows are more than enough. Without any there is nothing to wait for.
	remainsSQL = `
UPDATE whctl.shares h
SET room = l.busy, expires_at = coalesce(l.until, now())
FROM whctl.shares s
CROSS JOIN LATERAL (
  SELECT count(*) AS busy, max(o.lease_expires_at) AS until
  FROM (SELECT d.lease_owner, d.lease_expires_at
        FROM whctl.deliveries d
        WHERE d.state = 0 AND d.destination_id = s.destination_id AND d.next_attempt_at <= now()
        ORDER BY d.next_attempt_at, d.id
        LIMIT 200000) o
  WHERE o.lease_owner = $1 AND o.lease_expires_at > now()) l
WHERE s.owner = $1 AND s.expires_at IS NULL AND h.owner = s.owner AND h.destination_id = s.destination_id`

	// Beats of others may do the same at this moment.
	forgetSQL = `
WITH gone AS MATERIALIZED (
  SELECT h.destination_id, h.owner FROM whctl.shares h WHERE h.expires_at <= now() LIMIT 10000 FOR UPDATE SKIP LOCKED)
DELETE FROM whctl.shares h USING gone g WHERE h.destination_id = g.destination_id AND h.owner = g.owner`

	othersSQL = `SELECT count(*) FROM whctl.workers WHERE owner <> $1`
)

// Beat says that the owner is alive, whether it waits to be woken, and how many others are
// alive. Those that have been silent
// for too long are taken out; what they have in flight goes on counting until its leases
// end. Known is false for an owner that was not there: it has no shares (any more), and is
// there from now on.
func (s *Store) Beat(ctx context.Context, owner string, waiting bool) (others int, known bool, err error) {
	known = true // also where a repeat finds what the first try put in
	err = s.repeat(ctx, func(tx *sqlx.Tx) error {
		done, err := tx.ExecContext(ctx, s.sql(seenSQL), owner, waiting)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			known = false
			if _, err := tx.ExecContext(ctx, s.sql(enterSQL), owner, waiting); err != nil {
				return err
			}
		}
		var silent []string
		if err := tx.SelectContext(ctx, &silent, s.sql(silentSQL), owner, silence.Seconds()); err != nil {
			return err
		}
		for _, gone := range silent {
			if err := s.bury(ctx, tx, gone); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, s.sql(forgetSQL)); err != nil {
			return err
		}
		return tx.GetContext(ctx, &others, s.sql(othersSQL), owner)
	})
	if err != nil {
		return 0, known, fmt.Errorf("say that worker %s is alive: %w", owner, err)
	}
	return others, known, nil
}

// Leave takes the owner out, with its shares. What it still has in flight goes on
// counting until its leases end; none says that there is nothing, and saves the counting.
func (s *Store) Leave(ctx context.Context, owner string, none bool) error {
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		if none {
			return s.each(ctx, tx, owner, leaveSQL, dropSharesSQL)
		}
		return s.bury(ctx, tx, owner)
	})
	if err != nil {
		return fmt.Errorf("take out worker %s: %w", owner, err)
	}
	return nil
}

// bury takes a worker out. First its row: a claim or a change of shares that holds it is
// waited for, and one that comes later finds it gone. Only then is what it has in flight
// counted, by a statement of its own, which sees all that was waited for.
func (s *Store) bury(ctx context.Context, tx *sqlx.Tx, owner string) error {
	return s.each(ctx, tx, owner, leaveSQL, remainsSQL)
}

// each runs statements about one owner, in their order.
func (s *Store) each(ctx context.Context, tx *sqlx.Tx, owner string, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, s.sql(statement), owner); err != nil {
			return err
		}
	}
	return nil
}

const aliveSQL = `SELECT w.owner FROM whctl.workers w WHERE w.owner = $1 FOR KEY SHARE`

// alive is work.ErrNoWorker for an owner that was taken out; else it keeps that from
// happening while the transaction lasts.
func (s *Store) alive(ctx context.Context, tx *sqlx.Tx, owner string) error {
	var found []string
	if err := tx.SelectContext(ctx, &found, s.sql(aliveSQL), owner); err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: %s", work.ErrNoWorker, owner)
	}
	return nil
}
