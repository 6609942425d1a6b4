package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

const (
	// previewSQL counts what the cutoff $1 is about; with $2 no earlier than $1, all of it is.
	// protected is what a duplicate may yet come of, behind $4. Of a delivery with one attempt
	// the row of that attempt is there; of others they are counted, for a policy may have
	// removed some. example stands for the destination's name where that is gone.
	previewSQL = `
SELECT d.state, d.destination_id, min(x.name) AS name, count(*) AS candidates, min(d.finished_at) AS oldest, max(d.finished_at) AS newest,
       sum(CASE WHEN d.state = 1 AND d.finished_at >= $4 THEN 0
                WHEN d.generation = 1 AND d.attempts <= 1 THEN d.attempts
                ELSE (SELECT count(*) FROM whctl.attempts a WHERE a.delivery_id = d.id) END)::bigint AS attempts,
       count(*) FILTER (WHERE d.state = 1 AND d.finished_at >= $4) AS protected, min(d.id) AS example
FROM ` + finished + `
LEFT JOIN whctl.destinations x ON x.id = d.destination_id
WHERE d.finished_at >= $5 AND (NOT $6::boolean OR d.attempts > 1 OR d.generation > 1)
GROUP BY d.state, d.destination_id
ORDER BY d.state, d.destination_id
LIMIT 1000000`

	// previewAttemptsSQL counts what a policy for attempts would remove.
	previewAttemptsSQL = `
SELECT coalesce(sum((SELECT greatest(count(*) FILTER (WHERE a.finished_at < $1 AND EXISTS (
                       SELECT FROM whctl.attempts b WHERE b.delivery_id = a.delivery_id AND (b.generation, b.attempt) > (a.generation, a.attempt))), 0)
                     FROM whctl.attempts a WHERE a.delivery_id = d.id)), 0)::bigint
FROM ` + finished + `
WHERE d.finished_at >= $4 AND (d.attempts > 1 OR d.generation > 1)`

	exampleNamesSQL = `
SELECT e.id, e.destination FROM whctl.envelopes e WHERE e.id = ANY ($1) ORDER BY e.id LIMIT 1000000`

	countFinishedSQL = `SELECT count(*) FROM ` + finished

	// explainFinishedSQL is asked of each state alone: of a join the planner knows less.
	explainFinishedSQL = `
EXPLAIN (FORMAT JSON) SELECT FROM whctl.deliveries d WHERE d.state = $1 AND d.state > 0 AND d.finished_at < $2`

	endsSQL = `
SELECT min(e.oldest) AS oldest, max(e.newest) AS newest
FROM unnest($1::smallint[]) AS t(state)
CROSS JOIN LATERAL (
  SELECT (SELECT d.finished_at FROM whctl.deliveries d WHERE d.state = t.state AND d.state > 0 AND d.finished_at < $2 ORDER BY d.finished_at LIMIT 1) AS oldest,
         (SELECT d.finished_at FROM whctl.deliveries d WHERE d.state = t.state AND d.state > 0 AND d.finished_at < $2 ORDER BY d.finished_at DESC LIMIT 1) AS newest) e`

	// protectedSQL counts what is older than the cutoff and stays, for it is not finished.
	protectedSQL = `
SELECT count(*) FILTER (WHERE d.attempt_id IS NOT NULL) AS in_flight, count(*) FILTER (WHERE d.attempt_id IS NULL) AS not_terminal
FROM whctl.deliveries d
JOIN whctl.envelopes e ON e.id = d.id
WHERE d.state = 0 AND e.created_at < $1`

	// sizeSQL is what one delivery takes in all tables and indexes, on the average.
	sizeSQL = `
SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes, max(CASE WHEN c.relname = 'deliveries' THEN c.reltuples END)::float8 AS deliveries
FROM unnest(ARRAY['whctl.deliveries', 'whctl.envelopes', 'whctl.attempts']::regclass[]) AS t(oid)
JOIN pg_class c ON c.oid = t.oid`

	// paceSQL is how fast the last batches of a policy went.
	paceSQL = `
SELECT coalesce(sum(b.deliveries + b.attempts * (b.target = 'attempts')::int) / nullif(extract(epoch FROM sum(b.finished_at - b.started_at)), 0), 0)::float8
FROM (SELECT b.deliveries, b.attempts, b.target, b.started_at, b.finished_at FROM whctl.sweep_batches b
      WHERE b.policy = $1 ORDER BY b.version DESC, b.cutoff DESC, b.seq DESC LIMIT 100) b`

	previewedSQL = `
INSERT INTO whctl.retention_policies AS r (policy, version, definition, keep_us, previewed_at) VALUES ($1, $2, $3, $4, now())
ON CONFLICT (policy, version) DO UPDATE SET previewed_at = now()
WHERE r.definition = excluded.definition`
)

type previewRow struct {
	State       int16            `db:"state"`
	Destination int64            `db:"destination_id"`
	Name        sql.Null[string] `db:"name"`
	Candidates  int64            `db:"candidates"`
	Oldest      time.Time        `db:"oldest"`
	Newest      time.Time        `db:"newest"`
	Attempts    int64            `db:"attempts"`
	Protected   int64            `db:"protected"`
	Example     int64            `db:"example"`
}

// Preview says what a cutoff would remove, as of one snapshot, and changes nothing. It asks
// with the sweep's own conditions.
func (s *Store) Preview(ctx context.Context, r work.PreviewRequest) (work.Preview, error) {
	var p work.Preview
	look := func(exact bool) error {
		return s.inTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, func(tx *sqlx.Tx) (err error) {
			p, err = s.preview(ctx, tx, r, exact)
			return err
		})
	}
	err := look(r.Exact > 0)
	if err != nil && ctx.Err() == nil && errors.Is(err, work.ErrContended) && r.Exact > 0 {
		err = look(false) // counting took longer than a statement may
	}
	if errors.Is(err, work.ErrUsage) {
		return work.Preview{}, err
	}
	if err != nil {
		return work.Preview{}, fmt.Errorf("look at what policy %s would remove: %w", r.Policy.Name, err)
	}
	return p, nil
}

func (s *Store) preview(ctx context.Context, tx *sqlx.Tx, r work.PreviewRequest, exact bool) (work.Preview, error) {
	p := work.Preview{
		Policy: r.Policy.Name, Version: r.Policy.Version, Target: r.Policy.Target, ByState: map[work.State]int64{}, Current: r.Current,
	}
	if _, err := tx.ExecContext(ctx, quietlySQL); err != nil {
		return p, err
	}
	at, err := readInstants(ctx, tx, r.Policy.Target, r.Reach)
	if err != nil {
		return p, err
	}
	p.AsOf, p.Cutoff = at.AsOf, at.Cutoff
	r.Policy.States = r.Reach.States(r.Policy)
	if r.CurrentStates == nil {
		r.CurrentStates = r.Policy.States
	}
	estimate, err := s.estimated(ctx, tx, r.Policy.States, at.Cutoff)
	if err != nil {
		return p, err
	}
	if exact && total(estimate) <= r.Exact {
		err = s.counted(ctx, tx, r, &p, at.Protect)
	} else {
		p.Estimated = true
		err = s.guessed(ctx, tx, r, &p, estimate, at.Protect)
	}
	if err != nil {
		return p, err
	}
	if err := tx.GetContext(ctx, &p.PerSecond, s.sql(paceSQL), r.Policy.Name); err != nil {
		return p, err
	}
	return p, s.weigh(ctx, tx, &p)
}

func (s *Store) counted(ctx context.Context, tx *sqlx.Tx, r work.PreviewRequest, p *work.Preview, protect time.Time) error {
	var place time.Time // a sweep of attempts begins behind what an earlier one has done
	if err := tx.GetContext(ctx, &place, s.sql(placeSQL), r.Policy.Name, r.Policy.Target); err != nil {
		return err
	}
	var rows []previewRow
	if err := tx.SelectContext(ctx, &rows, s.sql(previewSQL), p.Cutoff, p.Cutoff, statesArray(r.Policy.States), protect, place, r.Policy.Target == work.TargetAttempts); err != nil {
		return err
	}
	if err := s.nameExamples(ctx, tx, rows); err != nil {
		return err
	}
	addRows(p, rows)
	if r.Policy.Target == work.TargetAttempts {
		if err := tx.GetContext(ctx, &p.Attempts, s.sql(previewAttemptsSQL), p.Cutoff, p.Cutoff, statesArray(r.Policy.States), place); err != nil {
			return err
		}
	}
	if err := tx.QueryRowxContext(ctx, s.sql(protectedSQL), p.Cutoff).Scan(&p.InFlight, &p.NotTerminal); err != nil {
		return err
	}
	if !slices.Contains(r.Policy.States, work.Dead) {
		if err := tx.GetContext(ctx, &p.Dead, s.sql(countFinishedSQL), p.Cutoff, p.Cutoff, statesArray([]work.State{work.Dead})); err != nil {
			return err
		}
	}
	current := p.AsOf.Add(-r.Current)
	return tx.GetContext(ctx, &p.CurrentCandidates, s.sql(countFinishedSQL), current, current, statesArray(r.CurrentStates))
}

// addRows adds the counts up, the destinations with most first.
func addRows(p *work.Preview, rows []previewRow) {
	byName := map[string]*work.DestinationCount{}
	for _, r := range rows {
		p.Candidates += r.Candidates
		p.Attempts += r.Attempts
		p.Window += r.Protected
		p.ByState[stateOf(r.State)] += r.Candidates
		p.Oldest, p.Newest = earlier(p.Oldest, r.Oldest), later(p.Newest, r.Newest)
		d := byName[r.Name.V]
		if d == nil {
			d = &work.DestinationCount{Destination: r.Name.V}
			byName[r.Name.V] = d
		}
		d.Count += r.Candidates
		d.Oldest = earlier(d.Oldest, r.Oldest)
	}
	for _, d := range byName {
		p.ByDestination = append(p.ByDestination, *d)
	}
	slices.SortFunc(p.ByDestination, func(a, b work.DestinationCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Destination, b.Destination))
	})
}

// nameExamples gives the deliveries of destinations that are gone the name in their envelope.
func (s *Store) nameExamples(ctx context.Context, tx *sqlx.Tx, rows []previewRow) error {
	var ids []int64
	for _, r := range rows {
		if !r.Name.Valid {
			ids = append(ids, r.Example)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var named []struct {
		ID          int64  `db:"id"`
		Destination string `db:"destination"`
	}
	if err := tx.SelectContext(ctx, &named, s.sql(exampleNamesSQL), pq.Array(ids)); err != nil {
		return err
	}
	names := make(map[int64]string, len(named))
	for _, n := range named {
		names[n.ID] = n.Destination
	}
	for i := range rows {
		if !rows[i].Name.Valid {
			rows[i].Name.V = names[rows[i].Example]
		}
	}
	return nil
}

// estimated asks the planner how many deliveries came to their end before the cutoff.
func (s *Store) estimated(ctx context.Context, tx *sqlx.Tx, states []work.State, cutoff time.Time) (map[work.State]int64, error) {
	out := make(map[work.State]int64, len(states))
	for _, state := range states {
		var text []byte
		if err := tx.GetContext(ctx, &text, s.sql(explainFinishedSQL), stateCodes[state], cutoff); err != nil {
			return nil, err
		}
		var plans []struct {
			Plan struct {
				Rows float64 `json:"Plan Rows"`
			}
		}
		if err := json.Unmarshal(text, &plans); err != nil || len(plans) == 0 {
			return nil, fmt.Errorf("read the server's plan: %w", err)
		}
		out[state] = int64(plans[0].Plan.Rows)
	}
	return out, nil
}

// guessed fills in what is known without counting.
func (s *Store) guessed(ctx context.Context, tx *sqlx.Tx, r work.PreviewRequest, p *work.Preview, estimate map[work.State]int64, protect time.Time) error {
	p.ByState, p.Candidates = estimate, total(estimate)
	if slices.Contains(r.Policy.States, work.Delivered) && protect.Before(p.Cutoff) {
		before, err := s.estimated(ctx, tx, []work.State{work.Delivered}, protect)
		if err != nil {
			return err
		}
		p.Window = max(0, estimate[work.Delivered]-before[work.Delivered])
	}
	current, err := s.estimated(ctx, tx, r.CurrentStates, p.AsOf.Add(-r.Current))
	if err != nil {
		return err
	}
	p.CurrentCandidates = total(current)
	var ends struct {
		Oldest sql.NullTime `db:"oldest"`
		Newest sql.NullTime `db:"newest"`
	}
	err = tx.GetContext(ctx, &ends, s.sql(endsSQL), statesArray(r.Policy.States), p.Cutoff)
	p.Oldest, p.Newest = ends.Oldest.Time, ends.Newest.Time
	return err
}

func (s *Store) weigh(ctx context.Context, tx *sqlx.Tx, p *work.Preview) error {
	var size struct {
		Bytes      float64 `db:"bytes"`
		Deliveries float64 `db:"deliveries"`
	}
	if err := tx.GetContext(ctx, &size, s.sql(sizeSQL)); err != nil {
		return err
	}
	if n := p.Removed(); n > 0 && p.Target == work.TargetDeliveries {
		p.Bytes = int64(size.Bytes * float64(n) / max(size.Deliveries, float64(n)))
	}
	return nil
}

// Previewed puts on record that a version of a policy was looked at. One that means
// something else on record is work.ErrConfig.
func (s *Store) Previewed(ctx context.Context, p work.Retention) error {
	var n int64
	err := s.repeat(ctx, func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, s.sql(previewedSQL), p.Name, p.Version, p.Definition(), p.Keep.Microseconds())
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: version %d of retention policy %s means something else on record; raise retention.%s.version", work.ErrConfig, p.Version, p.Name, p.Name)
	}
	if err != nil {
		return fmt.Errorf("put on record that policy %s was previewed: %w", p.Name, err)
	}
	return nil
}

func total(byState map[work.State]int64) (n int64) {
	for _, c := range byState {
		n += c
	}
	return n
}

func stateOf(code int16) work.State {
	for state, c := range stateCodes {
		if c == int64(code) {
			return state
		}
	}
	return ""
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
