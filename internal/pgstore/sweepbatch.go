package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	// sweepPlaceSQL waits for the batch of another run: the batches of a sweep go one after
	// the other, and each begins where the last one ended.
	sweepPlaceSQL = `
SELECT s.batches + 1 AS seq, s.finished_at IS NOT NULL AS finished, s.place_at, s.place_id, s.states
FROM whctl.sweeps s
WHERE s.id = $1
FOR NO KEY UPDATE`

	// sweepLookSQL finds the next candidates and locks those that nobody else holds. They are
	// looked at again under the lock: what has left its state meanwhile stays. The limit
	// (%[1]d) is written into the text, for a parameter there makes the planner expect a tenth
	// of all rows.
	sweepLookSQL = `
WITH c AS MATERIALIZED (
  SELECT c.id, c.finished_at
  FROM unnest($3::smallint[]) AS t(state)
  CROSS JOIN LATERAL (
    SELECT d.id, d.finished_at
    FROM whctl.deliveries d
    WHERE ` + finishedBefore + ` AND (d.finished_at, d.id) > ($4::timestamptz, $5::bigint)
    ORDER BY d.finished_at, d.id
    LIMIT %[1]d) c
  ORDER BY c.finished_at, c.id
  LIMIT %[1]d),
l AS MATERIALIZED (
  SELECT d.id, d.finished_at
  FROM whctl.deliveries d
  WHERE d.id = ANY (ARRAY(SELECT c.id FROM c)) AND d.state = ANY ($3) AND d.state > 0
    AND d.finished_at < CASE WHEN d.state = 1 THEN least($1::timestamptz, $2::timestamptz) ELSE $1::timestamptz END
  FOR UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM c) AS looked, ARRAY(SELECT l.id FROM l ORDER BY l.finished_at, l.id) AS ids, e.finished_at AS place_at, e.id AS place_id
FROM (SELECT c.finished_at, c.id FROM c ORDER BY c.finished_at DESC, c.id DESC LIMIT 1) e`

	removeDeliveriesSQL = `
a AS (DELETE FROM whctl.attempts a WHERE a.delivery_id = ANY ($1) RETURNING 1),
e AS (DELETE FROM whctl.envelopes e WHERE e.id = ANY ($1) RETURNING 1),
d AS (DELETE FROM whctl.deliveries d WHERE d.id = ANY ($1) RETURNING 1),`

	// removeAttemptsSQL leaves each delivery its last attempt.
	removeAttemptsSQL = `
a AS (
  DELETE FROM whctl.attempts a
  WHERE a.delivery_id = ANY ($1) AND a.finished_at < $5
    AND EXISTS (SELECT FROM whctl.attempts b WHERE b.delivery_id = a.delivery_id AND (b.generation, b.attempt) > (a.generation, a.attempt))
  RETURNING 1),
d AS (SELECT 1 WHERE false),`

	// sweepBatchSQL removes, moves the sweep's place on and writes the ledger: all of it, or
	// nothing. A batch that removes nothing has no row in the ledger.
	sweepBatchSQL = `
WITH %s
n AS MATERIALIZED (SELECT (SELECT count(*) FROM d) AS deliveries, (SELECT count(*) FROM a) AS attempts),
p AS (
  UPDATE whctl.sweeps s
  SET batches = s.batches + (n.deliveries + n.attempts > 0)::int, deliveries = s.deliveries + n.deliveries, attempts = s.attempts + n.attempts,
      skipped = s.skipped + $7::bigint, place_at = $10::timestamptz, place_id = $11::bigint, held_by = $12, held_until = now() + $13::bigint * interval '1 microsecond'
  FROM n
  WHERE s.id = $14)
INSERT INTO whctl.sweep_batches AS b (batch_key, policy, version, cutoff, seq, target, deliveries, attempts, skipped, after_at, after_id,
  place_at, place_id, worker, started_at, finished_at, archive_file, archive_offset, archive_bytes, archive_sha256)
SELECT $2, $3, $4::integer, $5::timestamptz, $6::integer, $15, n.deliveries, n.attempts, $7::bigint, $8::timestamptz, $9::bigint, $10::timestamptz, $11::bigint, $12,
  now(), clock_timestamp(), $16, $17::bigint, $18::bigint, $19::bytea
FROM n
WHERE n.deliveries + n.attempts > 0
RETURNING b.deliveries, b.attempts`
)

type sweepPlaceRow struct {
	Seq      int           `db:"seq"`
	Finished bool          `db:"finished"`
	PlaceAt  time.Time     `db:"place_at"`
	PlaceID  int64         `db:"place_id"`
	States   pq.Int64Array `db:"states"`
}

type sweepLookRow struct {
	Looked  int           `db:"looked"`
	IDs     pq.Int64Array `db:"ids"`
	PlaceAt time.Time     `db:"place_at"`
	PlaceID int64         `db:"place_id"`
}

// SweepBatch removes the next batch of a sweep. What it removed, what is in the ledger and
// where the next batch begins are stored together or not at all; an unknown end is looked
// up. Deliveries that another transaction holds are passed over. A batch that was in the
// way of others wraps work.ErrContended.
func (s *Store) SweepBatch(ctx context.Context, r work.SweepBatch) (work.Swept, error) {
	var swept work.Swept
	err := s.certain(ctx, func(tx *sqlx.Tx) (err error) {
		swept, err = s.sweepBatch(ctx, tx, r)
		return err
	})
	if err != nil {
		return work.Swept{}, fmt.Errorf("sweep a batch of policy %s: %w", r.Sweep.Policy, err)
	}
	return swept, nil
}

func (s *Store) sweepBatch(ctx context.Context, tx *sqlx.Tx, r work.SweepBatch) (work.Swept, error) {
	if _, err := tx.ExecContext(ctx, quietlySQL); err != nil {
		return work.Swept{}, err
	}
	var place sweepPlaceRow
	if err := tx.GetContext(ctx, &place, s.sql(sweepPlaceSQL), r.Sweep.ID); err != nil {
		return work.Swept{}, err
	}
	if place.Finished { // by another run
		return work.Swept{Last: true}, nil
	}
	var look sweepLookRow
	err := tx.GetContext(ctx, &look, fmt.Sprintf(s.sql(sweepLookSQL), r.Limit), r.Sweep.Cutoff, r.Sweep.Protect, place.States, place.PlaceAt, place.PlaceID)
	if errors.Is(err, sql.ErrNoRows) {
		return work.Swept{Last: true}, nil
	}
	if err != nil {
		return work.Swept{}, err
	}
	swept := work.Swept{Looked: int64(look.Looked), Skipped: int64(look.Looked - len(look.IDs)), Last: look.Looked < r.Limit}
	key := work.BatchKey(r.Sweep.Policy, r.Sweep.Version, r.Sweep.Cutoff, place.Seq)
	var mark work.ArchiveMark
	if r.Archive != nil && len(look.IDs) > 0 {
		if mark, err = s.archive(ctx, tx, r, key, look.IDs); err != nil {
			return work.Swept{}, err
		}
	}
	removed := removeDeliveriesSQL
	if r.Sweep.Target == work.TargetAttempts {
		removed = removeAttemptsSQL
	}
	err = tx.QueryRowxContext(ctx, fmt.Sprintf(s.sql(sweepBatchSQL), s.sql(removed)), pq.Array(look.IDs), key, r.Sweep.Policy, r.Sweep.Version, r.Sweep.Cutoff,
		place.Seq, swept.Skipped, place.PlaceAt, place.PlaceID, look.PlaceAt, look.PlaceID, r.Owner, r.Hold.Microseconds(), r.Sweep.ID, r.Sweep.Target,
		orNull(mark.File), nullWithout(mark, mark.Offset), nullWithout(mark, mark.Bytes), mark.SHA256).Scan(&swept.Deliveries, &swept.Attempts)
	if errors.Is(err, sql.ErrNoRows) {
		return swept, nil // all were skipped, or had one attempt
	}
	if err == nil && r.Sweep.Target == work.TargetDeliveries && swept.Deliveries != int64(len(look.IDs)) {
		err = fmt.Errorf("%d deliveries are gone of %d that were locked", swept.Deliveries, len(look.IDs))
	}
	swept.Key, swept.Archived = key, mark.Bytes
	return swept, err
}

// archive hands out the rows of a batch before they go.
func (s *Store) archive(ctx context.Context, tx *sqlx.Tx, r work.SweepBatch, key string, ids []int64) (work.ArchiveMark, error) {
	rows, err := s.archived(ctx, tx, ids)
	if err != nil {
		return work.ArchiveMark{}, err
	}
	mark, err := r.Archive(key, rows)
	if err != nil {
		return work.ArchiveMark{}, fmt.Errorf("%w: %w", work.ErrArchive, err) // not the database, whatever it looks like
	}
	return mark, nil
}

func orNull(text string) sql.Null[string] { return sql.Null[string]{V: text, Valid: text != ""} }

func nullWithout(m work.ArchiveMark, n int64) sql.Null[int64] {
	return sql.Null[int64]{V: n, Valid: m.File != ""}
}
