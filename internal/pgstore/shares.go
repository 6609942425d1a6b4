package pgstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	unwantSQL = `
DELETE FROM whctl.shares h
WHERE h.owner = $1 AND h.expires_at IS NULL
  AND NOT EXISTS (SELECT FROM unnest($2::bigint[]) w(id) WHERE w.id = h.destination_id)`

	// What the owner has (-1: no row of a living worker), and how many others are there.
	sharesSQL = `
SELECT w.id, coalesce(own.room, -1) AS room, coalesce(r.rivals, 0) AS rivals
FROM unnest($2::bigint[]) WITH ORDINALITY w(id, n)
LEFT JOIN whctl.shares own ON own.destination_id = w.id AND own.owner = $1 AND own.expires_at IS NULL
LEFT JOIN (SELECT h.destination_id, count(*) AS rivals FROM whctl.shares h
           WHERE h.owner <> $1 AND h.expires_at IS NULL AND h.destination_id = ANY($2::bigint[])
           GROUP BY h.destination_id) r ON r.destination_id = w.id
ORDER BY w.n`

	lowerSQL = `
UPDATE whctl.shares h SET room = w.room
FROM unnest($2::bigint[], $3::int[]) w(id, room)
WHERE h.destination_id = w.id AND h.owner = $1 AND h.expires_at IS NULL AND h.room > w.room`

	lockSharesSQL = `
SELECT h.destination_id FROM whctl.destination_health h
WHERE h.destination_id = ANY($1::bigint[])
ORDER BY h.destination_id
FOR NO KEY UPDATE SKIP LOCKED`

	// Under the locks: of each cap, what the others leave, but never less than there was.
	raiseSQL = `
INSERT INTO whctl.shares AS h (destination_id, owner, room)
SELECT w.id, $1, greatest(coalesce(own.room, 0), least(w.target, w.cap - coalesce(r.taken, 0)), 0)
FROM unnest($2::bigint[], $3::int[], $4::int[]) w(id, cap, target)
LEFT JOIN whctl.shares own ON own.destination_id = w.id AND own.owner = $1 AND own.expires_at IS NULL
LEFT JOIN (SELECT o.destination_id, sum(o.room) AS taken FROM whctl.shares o
           WHERE o.owner <> $1 AND (o.expires_at IS NULL OR o.expires_at > now()) AND o.destination_id = ANY($2::bigint[])
           GROUP BY o.destination_id) r ON r.destination_id = w.id
ORDER BY w.id
ON CONFLICT (destination_id, owner) DO UPDATE SET room = excluded.room, expires_at = NULL
RETURNING h.destination_id, h.room`
)

// Shares makes the owner's shares what it wants, as far as the others leave room, and
// answers with the room at each, in the order of wants. The list is complete: shares that
// it does not name are given up. The caps are kept exactly: a share is lowered freely, and
// raised only while nobody else can raise one of the same destination. An owner that was
// taken out is work.ErrNoWorker.
func (s *Store) Shares(ctx context.Context, owner string, wants []work.Want) ([]work.Share, error) {
	ids := make([]int64, len(wants))
	for i, w := range wants {
		ids[i] = w.DestinationID
	}
	var shares []work.Share
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		shares = nil
		if err := s.alive(ctx, tx, owner); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.sql(unwantSQL), owner, pq.Array(ids)); err != nil || len(wants) == 0 {
			return err
		}
		var p sharePlan
		if err := tx.SelectContext(ctx, &p.held, s.sql(sharesSQL), owner, pq.Array(ids)); err != nil {
			return err
		}
		p.make(wants)
		if len(p.lower.ids) > 0 {
			if _, err := tx.ExecContext(ctx, s.sql(lowerSQL), owner, pq.Array(p.lower.ids), pq.Array(p.lower.targets)); err != nil {
				return err
			}
		}
		raised, err := s.raise(ctx, tx, owner, p.raise)
		shares = p.shares(raised)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("share the requests in flight of worker %s: %w", owner, err)
	}
	return shares, nil
}

// raise raises shares whose destinations nobody else holds, by a statement of its own
// after the one that locks: so it sees what those before it have taken.
func (s *Store) raise(ctx context.Context, tx *sqlx.Tx, owner string, c shareChanges) (map[int64]int, error) {
	if len(c.ids) == 0 {
		return nil, nil
	}
	var locked []int64
	if err := tx.SelectContext(ctx, &locked, s.sql(lockSharesSQL), pq.Array(c.ids)); err != nil {
		return nil, err
	}
	c = c.only(locked)
	var rows []struct {
		DestinationID int64 `db:"destination_id"`
		Room          int   `db:"room"`
	}
	if err := tx.SelectContext(ctx, &rows, s.sql(raiseSQL), owner, pq.Array(c.ids), pq.Array(c.caps), pq.Array(c.targets)); err != nil {
		return nil, err
	}
	rooms := make(map[int64]int, len(rows))
	for _, r := range rows {
		rooms[r.DestinationID] = r.Room
	}
	return rooms, nil
}

// heldShare is what an owner has of a want.
type heldShare struct {
	ID     int64 `db:"id"`
	Room   int   `db:"room"` // -1: no share
	Rivals int   `db:"rivals"`
}

// shareChanges are shares to be changed, as columns.
type shareChanges struct{ ids, caps, targets []int64 }

func (c *shareChanges) add(w work.Want, target int) {
	c.ids, c.caps, c.targets = append(c.ids, w.DestinationID), append(c.caps, int64(w.Cap)), append(c.targets, int64(target))
}

// only is c without what is not among the ids, which are sorted.
func (c shareChanges) only(ids []int64) shareChanges {
	var kept shareChanges
	for i, id := range c.ids {
		if _, found := slices.BinarySearch(ids, id); found {
			kept.ids, kept.caps, kept.targets = append(kept.ids, id), append(kept.caps, c.caps[i]), append(kept.targets, c.targets[i])
		}
	}
	return kept
}

// sharePlan says which shares are to be lowered and which are to be raised.
type sharePlan struct {
	held         []heldShare // in the order of the wants
	lower, raise shareChanges
}

func (p *sharePlan) make(wants []work.Want) {
	for i, w := range wants {
		h := &p.held[i]
		switch target := shareOf(w, h.Rivals); {
		case h.Room > target:
			p.lower.add(w, target)
			h.Room = target
		case h.Room < target:
			p.raise.add(w, target)
		}
	}
}

// shareOf is an equal part of the cap, rounded up: whoever comes last gets what is left.
// What a worker has in flight it cannot give up.
func shareOf(w work.Want, rivals int) int {
	return max(1, (w.Cap+rivals)/(rivals+1), w.Busy)
}

func (p *sharePlan) shares(raised map[int64]int) []work.Share {
	shares := make([]work.Share, len(p.held))
	for i, h := range p.held {
		room, ok := raised[h.ID]
		if !ok {
			room = max(0, h.Room)
		}
		shares[i] = work.Share{DestinationID: h.ID, Room: room}
	}
	return shares
}
