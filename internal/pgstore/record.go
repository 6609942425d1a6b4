package pgstore

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// recordSQL writes a group of results. The fence is the row, the attempt id, the owner
// and the state (which a CHECK ties to the attempt id); the attempt row comes out of the fenced update, so that a repeat
// changes nothing and inserts nothing. move is a work.Move; class 0 (cancelled, given
// back) takes the count of the attempt back and writes none. An array may be shorter than
// the ids: what is not there is nothing, and the worker is $1. Answers with the places of
// the results that the fence refused; where it refused none, it does not look for them.
const recordSQL = `
WITH r AS MATERIALIZED (
  SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::text[], $5::smallint[], $6::bigint[], $7::smallint[], $8::smallint[],
                       $9::bigint[], $10::smallint[], $11::text[], $12::text[], $13::text[])
    WITH ORDINALITY AS t(id, attempt_id, worker, move, delay_us, class, status, latency_us, reason, fingerprint, message, excerpt, n)),
f AS (
  UPDATE whctl.deliveries d
  SET state = CASE WHEN r.move IN (1, 2, 3) THEN r.move ELSE 0 END,
      next_attempt_at = CASE r.move WHEN 0 THEN now() + coalesce(r.delay_us, 0) * interval '1 microsecond' WHEN 4 THEN d.next_attempt_at END,
      finished_at = CASE WHEN r.move IN (1, 2, 3) THEN now() END,
      attempts = d.attempts - (r.class = 0)::int,
      class = coalesce(nullif(r.class, 0), d.class),
      status = CASE WHEN r.class = 0 THEN d.status ELSE nullif(r.status, 0) END,
      reason = nullif(r.reason, 0),
      fingerprint = nullif(r.fingerprint, ''),
      lease_owner = NULL, lease_expires_at = NULL, attempt_id = NULL
  FROM r
  WHERE d.id = r.id AND d.lease_owner = $1 AND d.attempt_id = r.attempt_id AND d.state = 0
  RETURNING d.id, d.generation, d.attempts, d.started_at, r.n, r.attempt_id, r.latency_us, r.class, r.status, r.worker, r.message, r.excerpt),
a AS (
  INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, latency_us, generation, attempt, class, status, worker, message, excerpt)
  SELECT f.id, f.attempt_id, f.started_at, nullif(f.latency_us, 0), f.generation, f.attempts, f.class, nullif(f.status, 0),
         coalesce(nullif(f.worker, ''), $1), nullif(f.message, ''), nullif(f.excerpt, '')
  FROM f
  WHERE f.class <> 0)
SELECT r.n FROM r
WHERE (SELECT count(*) FROM f) < cardinality($2) AND NOT EXISTS (SELECT FROM f WHERE f.n = r.n)
ORDER BY r.n`

// Record writes a group of results and says what became of each, in their order. It
// may be repeated after an error: what was written stays as it is.
func (s *Store) Record(ctx context.Context, owner string, results []work.Result) ([]work.Fate, error) {
	fates := make([]work.Fate, len(results)) // work.Written
	var refused []int
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		refused = nil
		return tx.SelectContext(ctx, &refused, s.sql(recordSQL), recordArgs(owner, results)...)
	})
	if err != nil {
		return nil, fmt.Errorf("record %d results: %w", len(results), err)
	}
	for _, n := range refused {
		r := results[n-1]
		fate, err := s.recordLate(ctx, owner, r)
		if err != nil {
			return nil, fmt.Errorf("record the late result of attempt %s: %w", r.AttemptID, err)
		}
		fates[n-1] = fate
	}
	return fates, nil
}

func recordArgs(owner string, results []work.Result) []any {
	n := len(results)
	var (
		aids                                      = make(uuids, n)
		ids, delays, latencies                    = make([]int64, n), make([]int64, n), make([]int64, n)
		moves, classes, statuses, reasons         = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		workers, fingerprints, messages, excerpts = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	)
	for i, r := range results {
		ids[i], aids[i], moves[i], delays[i] = r.ID, r.AttemptID, int64(r.Move), r.Delay.Microseconds()
		workers[i], reasons[i], fingerprints[i] = r.Worker, int64(r.Reason.Code()), r.Fingerprint
		o := r.Outcome
		classes[i], statuses[i], latencies[i] = int64(o.Class.Code()), int64(o.Status), o.Latency.Microseconds()
		messages[i], excerpts[i] = o.Message, o.Excerpt
	}
	return []any{
		owner, pq.Array(ids), aids, pq.Array(trimmed(workers)), pq.Array(moves), pq.Array(trimmed(delays)), pq.Array(classes),
		pq.Array(trimmed(statuses)), pq.Array(trimmed(latencies)), pq.Array(trimmed(reasons)), pq.Array(trimmed(fingerprints)),
		pq.Array(trimmed(messages)), pq.Array(trimmed(excerpts)),
	}
}

// trimmed leaves out the zero values at the end. Of a group of successes most columns are
// nothing else, and each value would be written, sent and read for nothing.
func trimmed[T comparable](column []T) []T {
	var zero T
	n := len(column)
	for n > 0 && column[n-1] == zero {
		n--
	}
	return column[:n]
}

func workerOf(r work.Result, owner string) string {
	if r.Worker != "" {
		return r.Worker
	}
	return owner
}
