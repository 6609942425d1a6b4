package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

const (
	// A sweep keeps 30 days: these are swept, those stay.
	sweptAge = 40 * 24 * time.Hour
	keptAge  = 20 * 24 * time.Hour
	// sweptPayload is small: what is deleted is the row, however long.
	sweptPayload = 64
	loopSize     = 1000
)

// sweepable is a database with so many finished deliveries, old of which are to go.
func (l *lab) sweepable(ctx context.Context, all, old int) (*stage.Database, error) {
	rows := stage.Rows{Destinations: destinations, Size: sweptPayload, Finished: true}
	oldRows, keptRows := rows, rows
	oldRows.N, oldRows.Age = old, sweptAge
	keptRows.N, keptRows.Age = all-old, keptAge
	return l.filled(ctx, destinations, 0, oldRows, keptRows)
}

// sweep compares whctl sweep, without rests, with what people do by hand, and with itself
// when it archives.
func (l *lab) sweep(ctx context.Context) error {
	old := l.scale(1_000_000, 100_000)
	d, err := l.sweepable(ctx, 5*old, old)
	if err != nil {
		return err
	}
	var ours, archived, giant, loop []gauge.Run
	slow := gauge.Row{What: "sweep: p99 of a batch, with its commit", Unit: "ms", Bar: gauge.AtMost(50, 10)}
	for range l.rounds {
		run, err := l.byHand(ctx, d, old, giantDelete)
		if err != nil {
			return err
		}
		l.note("one transaction, a DELETE for each table", run)
		giant = append(giant, run)

		run, p99, err := l.sweepAll(ctx, d, old, "delivered")
		if err != nil {
			return err
		}
		l.note("whctl sweep", run)
		ours = append(ours, run)
		slow.Values, slow.Other = append(slow.Values, p99.Seconds()*1000), append(slow.Other, run.Other)

		if run, _, err = l.sweepAll(ctx, d, old, "archived"); err != nil {
			return err
		}
		l.note("whctl sweep, with an archive", run)
		archived = append(archived, run)

		if run, err = l.byHand(ctx, d, old, loopDelete); err != nil {
			return err
		}
		l.note("a loop over IN (SELECT … LIMIT 1000)", run)
		loop = append(loop, run)
	}
	l.ratio("sweep ÷ one large DELETE for each table", gauge.AtLeast(0.5, 0.75), ours, giant, gauge.Run.PerSecond)
	l.ratio("sweep ÷ a loop of DELETE … IN (SELECT … LIMIT 1000)", gauge.AtLeast(2, 0), ours, loop, gauge.Run.PerSecond)
	l.ratio("sweep with an archive ÷ without", gauge.AtLeast(0.35, 0), archived, ours, gauge.Run.PerSecond)
	l.table.Add(slow)
	return nil
}

// sweepAll runs whctl sweep on a copy, and tells how long its batches took.
func (l *lab) sweepAll(ctx context.Context, of *stage.Database, n int, policy string) (run gauge.Run, p99 time.Duration, err error) {
	err = l.onCopy(ctx, of, func(d *stage.Database) error {
		cmd := l.program.Command(ctx, d, "sweep", "--policy", policy, "--pause", "0s", "--batch-size", fmt.Sprint(loopSize), "-o", "json")
		var ended []stage.Ended
		if run, ended, err = l.spend(ctx, n, cmd); err != nil {
			return err
		}
		var sums []struct{ Deleted struct{ Deliveries int } }
		if err := json.Unmarshal(ended[0].Out, &sums); err != nil || len(sums) != 1 || sums[0].Deleted.Deliveries != n {
			return fmt.Errorf("want %d swept: %s: %w", n, ended[0].Out, err)
		}
		var seconds float64
		err := d.QueryRowContext(ctx, `
SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM b.took))
FROM (SELECT lead(b.started_at) OVER (ORDER BY b.seq) - b.started_at AS took FROM whctl.sweep_batches b) b`).Scan(&seconds)
		p99 = time.Duration(seconds * float64(time.Second))
		return err
	})
	return run, p99, err
}

// byHand times a deletion by SQL alone on a copy.
func (l *lab) byHand(ctx context.Context, of *stage.Database, n int, remove func(ctx context.Context, d *stage.Database) error) (run gauge.Run, err error) {
	err = l.onCopy(ctx, of, func(d *stage.Database) error {
		before, err := l.postgres.WAL(ctx)
		if err != nil {
			return err
		}
		span := gauge.Begin(l.watch())
		err = remove(ctx, d)
		run = gauge.Run{Cost: span.End(0), Units: float64(n)}
		after, failed := l.postgres.WAL(ctx)
		run.WAL = after - before
		return errors.Join(err, failed)
	})
	return run, err
}

const oldSQL = `SELECT d.id FROM whctl.deliveries d WHERE d.state = 1 AND d.finished_at < now() - interval '30 days'`

func giantDelete(ctx context.Context, d *stage.Database) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	for _, statement := range []string{
		`DELETE FROM whctl.attempts WHERE delivery_id IN (` + oldSQL + `)`,
		`DELETE FROM whctl.envelopes WHERE id IN (` + oldSQL + `)`,
		`DELETE FROM whctl.deliveries d WHERE d.state = 1 AND d.finished_at < now() - interval '30 days'`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// loopDelete is the loop that a script makes: each statement on its own.
func loopDelete(ctx context.Context, d *stage.Database) error {
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	some := oldSQL + fmt.Sprintf(` ORDER BY d.finished_at LIMIT %d`, loopSize)
	for {
		var result sql.Result
		for _, statement := range []string{
			`DELETE FROM whctl.attempts WHERE delivery_id IN (` + some + `)`,
			`DELETE FROM whctl.envelopes WHERE id IN (` + some + `)`,
			`DELETE FROM whctl.deliveries WHERE id IN (` + some + `)`,
		} {
			if result, err = conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		if n, err := result.RowsAffected(); err != nil || n < loopSize {
			return err
		}
	}
}

// sweepBeside compares deliver --once alone with deliver --once while another database of
// the same server is swept, with the rests that a sweep takes by itself.
func (l *lab) sweepBeside(ctx context.Context) error {
	n, old := l.scale(100_000, 20_000), l.scale(2_000_000, 200_000)
	due, err := l.filled(ctx, destinations, 0, stage.Rows{N: n, Destinations: destinations, Size: payload, Age: hour})
	if err != nil {
		return err
	}
	full, err := l.sweepable(ctx, old, old)
	if err != nil {
		return err
	}
	var alone, beside []gauge.Run
	for range l.rounds {
		run, err := l.deliverAll(ctx, due, n, 1)
		if err != nil {
			return err
		}
		l.note("deliver --once, alone", run)
		alone = append(alone, run)
		err = l.onCopy(ctx, full, func(d *stage.Database) error {
			sweeping, stop := context.WithCancel(ctx)
			defer stop()
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = stage.Run(l.program.Command(sweeping, d, "sweep", "--policy", "delivered", "--quiet")) // stopped below
			}()
			run, err = l.deliverAll(ctx, due, n, 1)
			stop()
			<-over
			var left int
			if failed := d.QueryRowContext(ctx, `SELECT count(*) FROM whctl.deliveries`).Scan(&left); failed != nil || left == 0 || left == old {
				err = errors.Join(err, failed, fmt.Errorf("%d of %d deliveries left: the sweep was not beside it all the time", left, old))
			}
			return err
		})
		if err != nil {
			return err
		}
		l.note("deliver --once, beside a sweep", run)
		beside = append(beside, run)
	}
	l.ratio("deliver --once beside a sweep ÷ alone", gauge.AtLeast(0.85, 0), beside, alone, gauge.Run.PerSecond)
	return nil
}

// preview measures dry-run cutoff, counted and estimated.
func (l *lab) preview(ctx context.Context) error {
	all, old := l.scale(10_000_000, 500_000), l.scale(3_000_000, 150_000)
	d, err := l.sweepable(ctx, all, old)
	if err != nil {
		return err
	}
	counted := gauge.Row{What: fmt.Sprintf("dry-run cutoff, %d candidates of %d", old, all), Unit: "s", Bar: gauge.AtMost(5, 0)}
	guessed := gauge.Row{What: "dry-run cutoff --estimate, likewise", Unit: "ms", Bar: gauge.AtMost(50, 0)}
	for range l.rounds {
		run, ended, err := l.spend(ctx, old, l.program.Command(ctx, d, "dry-run", "cutoff", "--policy", "delivered", "-o", "json"))
		if err != nil {
			return err
		}
		var previews []struct{ Candidates int }
		if err := json.Unmarshal(ended[0].Out, &previews); err != nil || len(previews) != 1 || previews[0].Candidates != old {
			return fmt.Errorf("want %d candidates: %s: %w", old, ended[0].Out, err)
		}
		counted.Values, counted.Other = append(counted.Values, run.Wall.Seconds()), append(counted.Other, run.Other)
		if run, _, err = l.spend(ctx, old, l.program.Command(ctx, d, "dry-run", "cutoff", "--policy", "delivered", "--estimate", "-o", "json")); err != nil {
			return err
		}
		guessed.Values, guessed.Other = append(guessed.Values, run.Wall.Seconds()*1000), append(guessed.Other, run.Other)
	}
	l.table.Add(counted)
	l.table.Add(guessed)
	var scanned int
	err = d.QueryRowContext(ctx, `SELECT coalesce(sum(s.seq_tup_read), 0) FROM pg_stat_user_tables s WHERE s.schemaname = 'whctl' AND s.relname IN ('deliveries', 'envelopes', 'attempts')`).Scan(&scanned)
	if err == nil && scanned > 0 {
		err = fmt.Errorf("%d rows were read by sequential scans", scanned)
	}
	return err
}
