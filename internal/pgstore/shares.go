package pgstore

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// None of these joins one list with another: the server has no statistics on what came a
// moment ago, and ten thousand times ten thousand takes it seconds.
const (
	ownSharesSQL = `
SELECT h.destination_id, h.room FROM whctl.shares h WHERE h.owner = $1 AND h.expires_at IS NULL ORDER BY h.destination_id`

	unwantSQL = `
DELETE FROM whctl.shares h WHERE h.owner = $1 AND h.expires_at IS NULL AND h.destination_id = ANY($2::bigint[])`

	// How many others are there, and how much of a cap they and the remains of the dead have.
	othersSharesSQL = `
SELECT w.id, l.rivals, l.taken
FROM unnest($2::bigint[]) w(id)
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE h.expires_at IS NULL) AS rivals, sum(h.room) AS taken FROM whctl.shares h
                    WHERE h.destination_id = w.id AND h.owner <> $1 AND (h.expires_at IS NULL OR h.expires_at > now())) l
WHERE l.taken IS NOT NULL
ORDER BY w.id`

	// The rows are there.
	lowerSQL = `
INSERT INTO whctl.shares AS h (destination_id, owner, room)
SELECT w.id, $1, w.room FROM unnest($2::bigint[], $3::int[]) w(id, room) ORDER BY w.id
ON CONFLICT (destination_id, owner) DO UPDATE SET room = excluded.room`

	lockSharesSQL = `
SELECT h.destination_id FROM whctl.destination_health h
WHERE h.destination_id = ANY($1::bigint[])
ORDER BY h.destination_id
FOR NO KEY UPDATE SKIP LOCKED`

	// Under the locks: of each cap, what the others leave, but never less than there was.
	raiseSQL = `
INSERT INTO whctl.shares AS h (destination_id, owner, room)
SELECT w.id, $1, greatest(w.present, least(w.target, w.cap - coalesce(l.taken, 0)), 0)
FROM unnest($2::bigint[], $3::int[], $4::int[], $5::int[]) w(id, cap, target, present)
CROSS JOIN LATERAL (SELECT sum(o.room) AS taken FROM whctl.shares o
                    WHERE o.destination_id = w.id AND o.owner <> $1 AND (o.expires_at IS NULL OR o.expires_at > now())) l
ORDER BY w.id
ON CONFLICT (destination_id, owner) DO UPDATE SET room = excluded.room, expires_at = NULL
RETURNING h.destination_id, h.room`
)

// Shares makes the owner's shares what it wants, as far as the others leave room, and
// answers with the room at each, in the order of wants. The list is complete: shares that
// it does not name are given up, and none stands in it twice. The caps are kept exactly: a share is lowered freely, and
// raised only while nobody else can raise one of the same destination. One that is lowered
// below what is in flight stands for that until it has ended; the answer is lower already,
// so that nothing new takes its place. An owner that was taken out is work.ErrNoWorker.
func (s *Store) Shares(ctx context.Context, owner string, wants []work.Want) ([]work.Share, error) {
	var shares []work.Share
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		if err := s.alive(ctx, tx, owner); err != nil {
			return err
		}
		p, err := s.planShares(ctx, tx, owner, wants)
		if err != nil {
			return err
		}
		if len(p.unwanted) > 0 {
			if _, err := tx.ExecContext(ctx, s.sql(unwantSQL), owner, pq.Array(p.unwanted)); err != nil {
				return err
			}
		}
		if l := p.lower; len(l.ids) > 0 {
			if _, err := tx.ExecContext(ctx, s.sql(lowerSQL), owner, pq.Array(l.ids), pq.Array(l.targets)); err != nil {
				return err
			}
		}
		if err := s.raiseShares(ctx, tx, owner, p); err != nil {
			return err
		}
		shares = p.shares(wants)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("share the requests in flight of worker %s: %w", owner, err)
	}
	return shares, nil
}

// planShares compares what the owner wants with what it has.
func (s *Store) planShares(ctx context.Context, tx *sqlx.Tx, owner string, wants []work.Want) (*sharePlan, error) {
	ids := make([]int64, len(wants))
	for i, w := range wants {
		ids[i] = w.DestinationID
	}
	var own []sharedRoom
	if err := tx.SelectContext(ctx, &own, s.sql(ownSharesSQL), owner); err != nil {
		return nil, err
	}
	var there []struct {
		DestinationID int64 `db:"id"`
		Rivals        int   `db:"rivals"`
		Taken         int   `db:"taken"`
	}
	if len(ids) > 0 {
		if err := tx.SelectContext(ctx, &there, s.sql(othersSharesSQL), owner, pq.Array(ids)); err != nil {
			return nil, err
		}
	}
	others := make(map[int64]otherShares, len(there))
	for _, o := range there {
		others[o.DestinationID] = otherShares{rivals: o.Rivals, taken: o.Taken}
	}
	return newSharePlan(wants, own, others), nil
}

// raiseShares raises shares whose destinations nobody else holds, by a statement of its
// own after the one that locks: so it sees what those before it have taken.
func (s *Store) raiseShares(ctx context.Context, tx *sqlx.Tx, owner string, p *sharePlan) error {
	if len(p.raise.ids) == 0 {
		return nil
	}
	var locked []int64
	if err := tx.SelectContext(ctx, &locked, s.sql(lockSharesSQL), pq.Array(p.raise.ids)); err != nil {
		return err
	}
	c := p.raise.only(locked)
	var raised []sharedRoom
	if err := tx.SelectContext(ctx, &raised, s.sql(raiseSQL), owner, pq.Array(c.ids), pq.Array(c.caps), pq.Array(c.targets), pq.Array(c.present)); err != nil {
		return err
	}
	for _, r := range raised {
		p.rooms[r.DestinationID] = r.Room
	}
	return nil
}
