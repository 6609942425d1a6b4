package pgstore

import (
	"context"
	"database/sql/driver"
	"encoding/base64"
	"strings"
	"time"

	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// fewOrders and fewBytes bound what is sent as parameters. More goes through COPY into a
// temporary table, which for a few would cost more than all the rest.
const (
	fewOrders = 50
	fewBytes  = 256 << 10
)

// source is where staged orders are read from, as the text of a CTE named s; a query
// that uses it has args first.
type source struct {
	cte  string
	args []any
}

const (
	// Payloads come in base64, which the driver passes on as it is; of bytes it would make
	// twice as many, and look at each twice. They are not compressed on their way through.
	// ON COMMIT DROP leaves nothing behind in a session that a pooler gives to others.
	createStagedSQL = `
CREATE TEMPORARY TABLE whctl_staged (
  n bigint, destination_id bigint, delivery_id text, destination text, tenant text, subject text, event_type text,
  event_version text, event_id text, event_at timestamptz, not_before timestamptz, not_after timestamptz, body text,
  payload text, id bigint DEFAULT nextval('whctl.envelopes_id_seq'))
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
			o.EventID, instant(o.EventAt), instant(o.NotBefore), instant(o.NotAfter), string(o.Body), base64.StdEncoding.EncodeToString(o.Payload))
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
              $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::text[])
    AS t(n, destination_id, delivery_id, destination, tenant, subject, event_type, event_version, event_id,
         event_at, not_before, not_after, body, payload))`

// parameters sends orders along with the query.
func (g *stager) parameters(orders []work.Order, places []int) source {
	var places64, ids pq.Int64Array
	texts := make([]pq.StringArray, 9)
	times := make([][]*string, 3)
	for _, i := range places {
		o := &orders[i]
		for j, text := range []string{
			o.DeliveryID, o.Destination, o.Tenant, o.Subject, o.EventType, o.EventVersion, o.EventID, string(o.Body),
			base64.StdEncoding.EncodeToString(o.Payload),
		} {
			texts[j] = append(texts[j], text)
		}
		for j, t := range []*time.Time{o.EventAt, o.NotBefore, o.NotAfter} {
			times[j] = append(times[j], stamp(t))
		}
		places64, ids = append(places64, int64(i)), append(ids, o.DestinationID)
	}
	return source{cte: g.store.sql(fromParameters), args: []any{
		places64, ids, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6],
		pq.Array(times[0]), pq.Array(times[1]), pq.Array(times[2]), texts[7], texts[8],
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
