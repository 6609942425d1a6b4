package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

const (
	ledgerSQL = `
SELECT b.batch_key, b.policy, b.version, b.cutoff, b.seq, b.target, b.deliveries, b.attempts, b.skipped, split_part(b.worker, '#', 1) AS worker,
       b.started_at, b.finished_at, coalesce(b.archive_file, '') AS archive_file, coalesce(b.archive_offset, 0) AS archive_offset,
       coalesce(b.archive_bytes, 0) AS archive_bytes, b.archive_sha256
FROM whctl.sweep_batches b
WHERE ($1 = '' OR b.policy = $1) AND ($2 = '' OR b.archive_file = $2)
ORDER BY b.finished_at DESC, b.policy, b.version, b.cutoff, b.seq DESC
LIMIT $3`

	// A batch that another run stores between two statements would look like a fault: all
	// are asked of one snapshot.

	// ledgerGapsSQL: the batches of a sweep are numbered without a gap, and as many as it has counted.
	ledgerGapsSQL = `
SELECT 'gap' AS kind, s.policy || '/' || s.version || '/' || s.id AS key,
       format('the sweep of policy %s, version %s counts %s batches; the ledger has %s, the last one is number %s', s.policy, s.version, s.batches, count(b.seq), coalesce(max(b.seq), 0)) AS message
FROM whctl.sweeps s
LEFT JOIN whctl.sweep_batches b ON b.policy = s.policy AND b.version = s.version AND b.cutoff = s.cutoff
GROUP BY s.id
HAVING count(b.seq) <> s.batches OR coalesce(max(b.seq), 0) <> s.batches
ORDER BY s.id
LIMIT 1000`

	ledgerSumsSQL = `
SELECT 'sum' AS kind, s.policy || '/' || s.version || '/' || s.id AS key,
       format('the sweep of policy %s, version %s counts %s deliveries and %s attempts; its batches add up to %s and %s',
              s.policy, s.version, s.deliveries, s.attempts, coalesce(sum(b.deliveries), 0), coalesce(sum(b.attempts), 0)) AS message
FROM whctl.sweeps s
LEFT JOIN whctl.sweep_batches b ON b.policy = s.policy AND b.version = s.version AND b.cutoff = s.cutoff
GROUP BY s.id
HAVING coalesce(sum(b.deliveries), 0) <> s.deliveries OR coalesce(sum(b.attempts), 0) <> s.attempts
ORDER BY s.id
LIMIT 1000`

	ledgerStraysSQL = `
SELECT 'stray' AS kind, b.batch_key AS key, 'the batch belongs to no sweep on record' AS message
FROM whctl.sweep_batches b
WHERE NOT EXISTS (SELECT FROM whctl.sweeps s WHERE s.policy = b.policy AND s.version = b.version AND s.cutoff = b.cutoff)
ORDER BY b.batch_key
LIMIT 1000`

	// ledgerLeftSQL: what a sweep of deliveries has passed is gone, but for what it skipped.
	ledgerLeftSQL = `
SELECT 'left' AS kind, s.policy || '/' || s.version || '/' || s.id AS key,
       format('%s deliveries are there that the sweep of policy %s, version %s had dealt with; it skipped %s', l.n, s.policy, s.version, s.skipped) AS message
FROM whctl.sweeps s
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM unnest(s.states) AS t(state)
  JOIN whctl.deliveries d ON d.state = t.state AND d.state > 0
   AND d.finished_at < CASE WHEN t.state = 1 THEN least(s.cutoff, s.protect_from) ELSE s.cutoff END AND (d.finished_at, d.id) <= (s.place_at, s.place_id)) l
WHERE s.target = 'deliveries' AND l.n > s.skipped
ORDER BY s.id
LIMIT 1000`

	orphansSQL = `
SELECT 'orphan' AS kind, e.delivery_id AS key, 'an envelope without its delivery' AS message
FROM whctl.envelopes e
WHERE NOT EXISTS (SELECT FROM whctl.deliveries d WHERE d.id = e.id)
UNION ALL
SELECT 'orphan', d.id::text, 'a delivery without its envelope'
FROM whctl.deliveries d
WHERE NOT EXISTS (SELECT FROM whctl.envelopes e WHERE e.id = d.id)
UNION ALL
SELECT 'orphan', a.attempt_id::text, 'an attempt without its delivery'
FROM whctl.attempts a
WHERE NOT EXISTS (SELECT FROM whctl.deliveries d WHERE d.id = a.delivery_id)
ORDER BY 3, 2
LIMIT 1000`

	ledgerTotalsSQL = `
SELECT count(*) AS batches, coalesce(sum(b.deliveries), 0)::bigint AS deliveries, coalesce(sum(b.attempts), 0)::bigint AS attempts FROM whctl.sweep_batches b`
)

type ledgerRow struct {
	Key           string    `db:"batch_key"`
	Policy        string    `db:"policy"`
	Version       int       `db:"version"`
	Cutoff        time.Time `db:"cutoff"`
	Seq           int       `db:"seq"`
	Target        string    `db:"target"`
	Deliveries    int64     `db:"deliveries"`
	Attempts      int64     `db:"attempts"`
	Skipped       int64     `db:"skipped"`
	Worker        string    `db:"worker"`
	StartedAt     time.Time `db:"started_at"`
	FinishedAt    time.Time `db:"finished_at"`
	ArchiveFile   string    `db:"archive_file"`
	ArchiveOffset int64     `db:"archive_offset"`
	ArchiveBytes  int64     `db:"archive_bytes"`
	ArchiveSHA256 []byte    `db:"archive_sha256"`
}

// LedgerQuery selects rows of the ledger; what is empty does not restrict.
type LedgerQuery struct {
	Policy  string
	Archive string // base name of the file
	Limit   int
}

// Ledger lists batches, the last one first.
func (s *Store) Ledger(ctx context.Context, q LedgerQuery) ([]work.LedgerRow, error) {
	var rows []ledgerRow
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, s.sql(ledgerSQL), q.Policy, q.Archive, q.Limit)
	})
	if err != nil {
		return nil, fmt.Errorf("list the ledger of sweeps: %w", err)
	}
	out := make([]work.LedgerRow, len(rows))
	for i, r := range rows {
		out[i] = work.LedgerRow{
			Key: r.Key, Policy: r.Policy, Version: r.Version, Cutoff: r.Cutoff, Seq: r.Seq, Target: work.Target(r.Target), Deliveries: r.Deliveries,
			Attempts: r.Attempts, Skipped: r.Skipped, Worker: r.Worker, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
			Archive: work.ArchiveMark{File: r.ArchiveFile, Offset: r.ArchiveOffset, Bytes: r.ArchiveBytes, SHA256: r.ArchiveSHA256},
		}
	}
	return out, nil
}

const knowsSweepSQL = `
SELECT EXISTS (SELECT FROM whctl.sweeps s WHERE starts_with($1, s.policy || '/' || s.version || '/'))`

// KnowsSweep says that a batch key belongs to a policy and version that was swept by here.
func (s *Store) KnowsSweep(ctx context.Context, batchKey string) (bool, error) {
	var known bool
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &known, s.sql(knowsSweepSQL), batchKey)
	})
	if err != nil {
		return false, fmt.Errorf("look for the sweep of batch %s: %w", batchKey, err)
	}
	return known, nil
}

// LedgerTotals is what all batches together removed.
type LedgerTotals struct {
	Batches    int64 `db:"batches"`
	Deliveries int64 `db:"deliveries"`
	Attempts   int64 `db:"attempts"`
}

// VerifyLedger holds the ledger against itself and against the tables, in one snapshot.
func (s *Store) VerifyLedger(ctx context.Context) ([]work.LedgerFault, LedgerTotals, error) {
	var faults []work.LedgerFault
	var totals LedgerTotals
	err := s.inTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, func(tx *sqlx.Tx) error {
		faults = nil
		for _, query := range []string{ledgerGapsSQL, ledgerSumsSQL, ledgerStraysSQL, ledgerLeftSQL, orphansSQL} {
			var some []work.LedgerFault
			if err := tx.SelectContext(ctx, &some, s.sql(query)); err != nil {
				return err
			}
			faults = append(faults, some...)
		}
		return tx.GetContext(ctx, &totals, s.sql(ledgerTotalsSQL))
	})
	if err != nil {
		return nil, LedgerTotals{}, fmt.Errorf("verify the ledger of sweeps: %w", err)
	}
	return faults, totals, nil
}

// RetentionVersions is what is on record of a policy, the oldest version first.
func (s *Store) RetentionVersions(ctx context.Context, policy string) ([]work.RetentionVersion, error) {
	var rows []versionRow
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, s.sql(retentionVersionsSQL), policy)
	})
	if err != nil {
		return nil, fmt.Errorf("read the versions of retention policy %s: %w", policy, err)
	}
	return versions(rows), nil
}

func versions(rows []versionRow) []work.RetentionVersion {
	out := make([]work.RetentionVersion, len(rows))
	for i, v := range rows {
		out[i] = work.RetentionVersion{
			Version: v.Version, Definition: v.Definition, Keep: time.Duration(v.KeepUS) * time.Microsecond,
			PreviewedAt: v.PreviewedAt.Time, SweptAt: v.SweptAt.Time,
		}
	}
	return out
}
