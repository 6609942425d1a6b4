package pgstore

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// stager puts orders in within a transaction.
type stager struct {
	store *Store
	tx    *sqlx.Tx
	table bool // the temporary table exists
	// hopeful: many orders are expected to be all new, which saves a third of the work: to
	// look each row up in three indexes before it is inserted. If they are not, put fails
	// with errKnown.
	hopeful bool
	// orderly: rows are inserted in the order of their keys. Two that have keys in common
	// and are not may wait for each other in a circle; whoever is broken off is orderly the
	// next time.
	orderly bool
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
	if len(places) <= fewOrders && size <= fewBytes {
		return receipts, g.insert(ctx, g.parameters(orders, places), receipts)
	}
	from, err := g.copy(ctx, orders, places)
	if err != nil {
		return nil, err
	}
	if g.hopeful {
		return receipts, g.insertNew(ctx, from, len(places))
	}
	return receipts, g.insert(ctx, from, receipts)
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

// order is that of insertion, as the end of a SELECT: else it is that of the lines.
func (g *stager) order() string {
	if !g.orderly {
		return ""
	}
	return "ORDER BY s.subject, s.event_version, s.event_type, s.destination, s.tenant, s.n"
}

// insertNewSQL puts in orders none of which is there yet, or fails with a unique
// violation. It answers with how many rows it made and how many of the orders have
// expired: unless that is all and none, nothing may be kept. %[1]s is the source, %[2]s
// the order.
const insertNewSQL = `
WITH %[1]s,
e AS (
  INSERT INTO whctl.envelopes (id, delivery_id, destination, tenant, subject, event_type, event_version, event_id, event_at,
                               not_after, body, payload)
  SELECT s.id, s.delivery_id, s.destination, s.tenant, s.subject, s.event_type, s.event_version, s.event_id,
         coalesce(s.event_at, now()), s.not_after, nullif(s.body, ''), decode(s.payload, 'base64')
  FROM s
  %[2]s
  RETURNING 1),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, next_attempt_at)
  SELECT s.id, s.destination_id, coalesce(s.not_before, now()) FROM s)
SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM s WHERE s.not_after < coalesce(s.not_before, now()))`

// insertNew puts in all orders, or else answers with errKnown.
func (g *stager) insertNew(ctx context.Context, from source, n int) error {
	var made, expired int
	err := g.tx.QueryRowContext(ctx, fmt.Sprintf(g.store.sql(insertNewSQL), from.cte, g.order()), from.args...).Scan(&made, &expired)
	if pq.As(err, "23505") != nil || err == nil && (made != n || expired > 0) {
		return errKnown
	}
	return err
}

// insertStagedSQL puts in what is not there yet, in the order of the lines, and answers
// with the places of what was kept out. The row ids are given out in staging: by nothing
// else can it be told for sure which order became which row.
const insertStagedSQL = `
WITH %[1]s,
e AS (
  INSERT INTO whctl.envelopes (id, delivery_id, destination, tenant, subject, event_type, event_version, event_id, event_at,
                               not_after, body, payload)
  SELECT s.id, s.delivery_id, s.destination, s.tenant, s.subject, s.event_type, s.event_version, s.event_id,
         coalesce(s.event_at, now()), s.not_after, nullif(s.body, ''), decode(s.payload, 'base64')
  FROM s
  WHERE s.not_after IS NULL OR s.not_after >= coalesce(s.not_before, now())
  %[2]s
  ON CONFLICT DO NOTHING
  RETURNING id),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, next_attempt_at)
  SELECT s.id, s.destination_id, coalesce(s.not_before, now()) FROM s JOIN e ON e.id = s.id)
SELECT s.n FROM s WHERE NOT EXISTS (SELECT FROM e WHERE e.id = s.id) ORDER BY s.n`

// insert puts in what is not there yet, and finds out about the rest.
func (g *stager) insert(ctx context.Context, from source, receipts []work.Receipt) error {
	var out []int64
	err := g.tx.SelectContext(ctx, &out, fmt.Sprintf(g.store.sql(insertStagedSQL), from.cte, g.order()), from.args...)
	if err != nil || len(out) == 0 {
		return err
	}
	return g.explain(ctx, from, out, receipts)
}

// explainStagedSQL says why orders were kept out. It is a statement of its own, so that
// it sees what others have committed until now. The sub-selects with LIMIT are looked up
// one by one in an index, however large the table is. $%[2]d are the places.
const explainStagedSQL = `
WITH %[1]s
SELECT s.n, k.delivery_id, coalesce(k.payload = decode(s.payload, 'base64'), false), i.taken IS NOT NULL,
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
