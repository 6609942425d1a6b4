package pgstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// fewOrders and fewBytes bound what is sent as parameters. More goes through COPY into a
// temporary table, which for a few would cost more than all the rest.
const (
	fewOrders = 50
	fewBytes  = 256 << 10
)

// stager puts orders in within a transaction.
type stager struct {
	store *Store
	tx    *sqlx.Tx
	table bool // the temporary table exists
	// hopeful: nothing is expected to be there; if something is, the transaction fails
	// with a unique violation.
	hopeful bool
}

// source is where staged orders are read from, as the text of a CTE named s; a query
// that uses it has args first.
type source struct {
	cte  string
	args []any
}

// keepDestinationsSQL keeps destinations from being removed before the transaction ends.
const keepDestinationsSQL = `
SELECT x.id FROM whctl.destinations x WHERE x.id = ANY($1::bigint[]) ORDER BY x.id FOR KEY SHARE`

// put inserts orders and finds out about those that were kept out.
func (g *stager) put(ctx context.Context, orders []work.Order) ([]work.Receipt, error) {
	var ids []int64
	if err := g.tx.SelectContext(ctx, &ids, g.store.sql(keepDestinationsSQL), pq.Array(destinationsOf(orders))); err != nil {
		return nil, err
	}
	locked := make(map[int64]bool, len(ids))
	for _, id := range ids {
		locked[id] = true
	}
	receipts, size := make([]work.Receipt, len(orders)), 0
	places := make([]int, 0, len(orders)) // of those that can be inserted
	for i := range orders {
		if !locked[orders[i].DestinationID] {
			receipts[i].Result = work.UnknownDestination
			continue
		}
		receipts[i] = work.Receipt{Result: work.Enqueued, DeliveryID: orders[i].DeliveryID}
		places = append(places, i)
		size += len(orders[i].Payload)
	}
	if len(places) == 0 {
		return receipts, nil
	}
	from, err := g.stage(ctx, orders, places, size)
	if err != nil {
		return nil, err
	}
	out, err := g.insert(ctx, from)
	if err == nil && len(out) > 0 {
		err = g.explain(ctx, from, out, receipts)
	}
	return receipts, err
}

func destinationsOf(orders []work.Order) []int64 {
	seen := make(map[int64]bool)
	var ids []int64
	for i := range orders {
		if id := orders[i].DestinationID; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func (g *stager) stage(ctx context.Context, orders []work.Order, places []int, size int) (source, error) {
	if len(places) <= fewOrders && size <= fewBytes {
		return g.parameters(orders, places), nil
	}
	return g.copy(ctx, orders, places)
}

const (
	// Payloads are not compressed on their way through. ON COMMIT DROP leaves nothing
	// behind in a session that a pooler gives to others.
	createStagedSQL = `
CREATE TEMPORARY TABLE whctl_staged (
  n bigint, destination_id bigint, delivery_id text, destination text, tenant text, subject text, event_type text,
  event_version text, event_id text, event_at timestamptz, not_before timestamptz, not_after timestamptz, body text,
  payload bytea, id bigint DEFAULT nextval('whctl.envelopes_id_seq'))
ON COMMIT DROP;
ALTER TABLE pg_temp.whctl_staged ALTER COLUMN payload SET STORAGE EXTERNAL`

	emptyStagedSQL = `
TRUNCATE pg_temp.whctl_staged`

	copyStagedSQL = `
COPY pg_temp.whctl_staged (n, destination_id, delivery_id, destination, tenant, subject, event_type, event_version, event_id, event_at,
  not_before, not_after, body, payload) FROM STDIN`

	fromStaged = `s AS NOT MATERIALIZED (SELECT * FROM pg_temp.whctl_staged)`
)

// copy stages orders in the temporary table.
func (g *stager) copy(ctx context.Context, orders []work.Order, places []int) (source, error) {
	ready := g.store.sql(createStagedSQL)
	if g.table {
		ready = emptyStagedSQL
	}
	if _, err := g.tx.ExecContext(ctx, ready); err != nil {
		return source{}, err
	}
	g.table = true
	stmt, err := g.tx.PrepareContext(ctx, strings.TrimSpace(copyStagedSQL))
	if err != nil {
		return source{}, err
	}
	defer func() { _ = stmt.Close() }() // its last Exec has told what went wrong
	for _, i := range places {
		o := &orders[i]
		_, err := stmt.ExecContext(ctx, int64(i), o.DestinationID, o.DeliveryID, o.Destination, o.Tenant, o.Subject, o.EventType, o.EventVersion,
			o.EventID, instant(o.EventAt), instant(o.NotBefore), instant(o.NotAfter), string(o.Body), o.Payload)
		if err != nil {
			return source{}, err
		}
	}
	if _, err := stmt.ExecContext(ctx); err != nil {
		return source{}, err
	}
	return source{cte: fromStaged}, nil
}

const fromParameters = `s AS MATERIALIZED (
  SELECT t.*, nextval('whctl.envelopes_id_seq') AS id
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::bytea[])
    AS t(n, destination_id, delivery_id, destination, tenant, subject, event_type, event_version, event_id,
         event_at, not_before, not_after, body, payload))`

// parameters sends orders along with the query.
func (g *stager) parameters(orders []work.Order, places []int) source {
	var places64, ids pq.Int64Array
	var payloads pq.ByteaArray
	texts := make([]pq.StringArray, 8)
	times := make([][]*string, 3)
	for _, i := range places {
		o := &orders[i]
		for j, text := range []string{o.DeliveryID, o.Destination, o.Tenant, o.Subject, o.EventType, o.EventVersion, o.EventID, string(o.Body)} {
			texts[j] = append(texts[j], text)
		}
		for j, t := range []*time.Time{o.EventAt, o.NotBefore, o.NotAfter} {
			times[j] = append(times[j], stamp(t))
		}
		places64, ids, payloads = append(places64, int64(i)), append(ids, o.DestinationID), append(payloads, o.Payload)
	}
	return source{cte: g.store.sql(fromParameters), args: []any{
		places64, ids, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6],
		pq.Array(times[0]), pq.Array(times[1]), pq.Array(times[2]), texts[7], payloads,
	}}
}

// stamp is t in microseconds, which is what the database keeps; it would round.
func stamp(t *time.Time) *string {
	if t == nil {
		return nil
	}
	text := t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	return &text
}

func instant(t *time.Time) driver.Value {
	if text := stamp(t); text != nil {
		return *text
	}
	return nil
}

// insertStagedSQL puts in what is not there yet, in the order of the lines, and answers
// with the places of what was kept out. The row ids are given out in staging: by nothing
// else can it be told for sure which order became which row. %[1]s is the source, %[2]s
// what to do about orders that are there already.
const insertStagedSQL = `
WITH %[1]s,
e AS (
  INSERT INTO whctl.envelopes (id, delivery_id, destination, tenant, subject, event_type, event_version, event_id, event_at,
                               not_after, body, payload)
  SELECT s.id, s.delivery_id, s.destination, s.tenant, s.subject, s.event_type, s.event_version, s.event_id,
         coalesce(s.event_at, now()), s.not_after, nullif(s.body, ''), s.payload
  FROM s
  WHERE s.not_after IS NULL OR s.not_after >= coalesce(s.not_before, now())
  %[2]s
  RETURNING id),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, next_attempt_at)
  SELECT s.id, s.destination_id, coalesce(s.not_before, now()) FROM s JOIN e ON e.id = s.id)
SELECT s.n FROM s WHERE NOT EXISTS (SELECT FROM e WHERE e.id = s.id) ORDER BY s.n`

// skipKnown looks every row up in three indexes before it is inserted, which makes a
// quarter of all the work. So it is left out as long as nothing was there before.
const skipKnown = `ON CONFLICT DO NOTHING`

// insert answers with the places of the orders that were kept out.
func (g *stager) insert(ctx context.Context, from source) ([]int64, error) {
	onConflict := skipKnown
	if g.hopeful {
		onConflict = ""
	}
	var out []int64
	err := g.tx.SelectContext(ctx, &out, fmt.Sprintf(g.store.sql(insertStagedSQL), from.cte, onConflict), from.args...)
	return out, err
}

// explainStagedSQL says why orders were kept out. It is a statement of its own, so that
// it sees what others have committed until now. The sub-selects with LIMIT are looked up
// one by one in an index, however large the table is. $%[2]d are the places.
const explainStagedSQL = `
WITH %[1]s
SELECT s.n, k.delivery_id, coalesce(k.payload = s.payload, false), i.taken IS NOT NULL,
       coalesce(s.not_after < coalesce(s.not_before, now()), false)
FROM s
LEFT JOIN LATERAL (
  SELECT e.delivery_id, e.payload FROM whctl.envelopes e
  WHERE e.subject = s.subject AND e.event_version = s.event_version AND e.event_type = s.event_type
    AND e.destination = s.destination AND e.tenant = s.tenant
  LIMIT 1) k ON true
LEFT JOIN LATERAL (
  SELECT true AS taken FROM whctl.envelopes e WHERE k.delivery_id IS NULL AND e.delivery_id = s.delivery_id
  LIMIT 1) i ON true
WHERE s.n = ANY($%[2]d::bigint[])
ORDER BY s.n`

func (g *stager) explain(ctx context.Context, from source, out []int64, receipts []work.Receipt) error {
	query := fmt.Sprintf(g.store.sql(explainStagedSQL), from.cte, len(from.args)+1)
	rows, err := g.tx.QueryContext(ctx, query, append(from.args, pq.Array(out))...)
	if err != nil {
		return err
	}
	return scanAll(rows, func(scan func(...any) error) error {
		var n int
		var id *string
		var same, taken, expired bool
		if err := scan(&n, &id, &same, &taken, &expired); err != nil {
			return err
		}
		r := &receipts[n]
		switch {
		case id != nil && same:
			r.Result, r.DeliveryID = work.Duplicate, *id
		case id != nil:
			r.Result, r.DeliveryID = work.Conflict, *id
		case expired:
			r.Result = work.Expired
		case taken:
			r.Result, r.Taken = work.Conflict, true
		default:
			return errVanished
		}
		return nil
	})
}
