package stage

import (
	"context"
	"fmt"
	"time"
)

// seedStep bounds the rows of one statement.
const seedStep = 1_000_000

// destinationsSQL: d0, d1, … sign with the key that all peers sign with. What is sent to
// them is an envelope, which `destination apply` would have fixed too.
const destinationsSQL = `
INSERT INTO whctl.destinations (name, url, signing_key, body)
SELECT 'd' || n, $1 || '/' || CASE WHEN n < $3 THEN 'slow' ELSE 'd' END || '/' || n, 'bench', 'envelope' FROM generate_series(0, $2 - 1) n`

// Destinations makes n destinations; the first slow of them answer late.
func (d *Database) Destinations(ctx context.Context, receiver string, n, slow int) error {
	_, err := d.ExecContext(ctx, destinationsSQL, receiver, n, slow)
	return err
}

// Rows describes rows to put into the work table by SQL alone: it is not enqueueing that
// is measured behind them.
type Rows struct {
	N            int
	Destinations int           // they belong to d0 … in turn
	Size         int           // of a payload, in bytes
	Finished     bool          // delivered long ago, with an attempt each; else due
	Age          time.Duration // how long ago the first became due; the next ones a microsecond later each
}

// envelopesSQL gives delivery ids as long as whctl's own, and as theirs nearly in order.
// The payload is that of peer.Payload.
const envelopesSQL = `
INSERT INTO whctl.envelopes (event_at, delivery_id, destination, subject, event_type, event_version, body, payload)
SELECT now(), lpad((f.top + n)::text, 36, '0'), 'd' || n % $3, 's' || lpad((f.top + n)::text, 10, '0'), 'bench.happened', '1', 'envelope',
       convert_to('{"n":"' || lpad(n::text, 10, '0') || '","x":"' || lpad(n::text, $4 - 25, '0') || '"}', 'UTF8')
FROM generate_series($1::int, $2::int) n, (SELECT coalesce(max(id), 0) - $1::int + 1 AS top FROM whctl.envelopes) f
RETURNING id, destination`

const dueSQL = `
WITH e AS (` + envelopesSQL + `)
INSERT INTO whctl.deliveries (id, destination_id, next_attempt_at)
SELECT e.id, x.id, now() - $5 * interval '1 second' + e.id * interval '1 microsecond'
FROM e JOIN whctl.destinations x ON x.name = e.destination`

const finishedSQL = `
WITH e AS (` + envelopesSQL + `),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, started_at, finished_at, attempts, state, class, status)
  SELECT e.id, x.id, t.at, t.at, 1, 1, 1, 200
  FROM e
  JOIN whctl.destinations x ON x.name = e.destination
  CROSS JOIN LATERAL (SELECT now() - $5 * interval '1 second' + e.id * interval '1 microsecond' AS at) t
  RETURNING id, started_at)
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, latency_us, generation, attempt, class, status, worker)
SELECT d.id, gen_random_uuid(), d.started_at, d.started_at, 1000, 1, 1, 1, 200, 'bench' FROM d`

// Fill puts rows there. The triggers that refuse a delivery that begins as finished are
// passed by.
func (d *Database) Fill(ctx context.Context, r Rows) error {
	statement := dueSQL
	if r.Finished {
		statement = finishedSQL
	}
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
		return err
	}
	for from := 0; from < r.N; from += seedStep {
		to := min(from+seedStep, r.N) - 1
		if _, err := tx.ExecContext(ctx, statement, from, to, r.Destinations, r.Size, r.Age.Seconds()); err != nil {
			return fmt.Errorf("fill rows %d to %d: %w", from, to, err)
		}
	}
	return tx.Commit()
}

// KeepDead turns vacuum off for the table that is updated: dead rows and their entries in
// indexes stay.
func (d *Database) KeepDead(ctx context.Context) error {
	_, err := d.ExecContext(ctx, `ALTER TABLE whctl.deliveries SET (autovacuum_enabled = off)`)
	return err
}

// KeepPayloadsRaw keeps large payloads from being compressed: they would shrink to
// nothing, and no real one does.
func (d *Database) KeepPayloadsRaw(ctx context.Context) error {
	_, err := d.ExecContext(ctx, `ALTER TABLE whctl.envelopes ALTER payload SET STORAGE EXTERNAL`)
	return err
}
