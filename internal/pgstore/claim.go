package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// claimSQL takes due deliveries under a lease, and is the start of their attempts:
// lease, attempt id, number and start time are one committed write. A row whose lease
// has run out is taken over under the attempt id that it has, and counts no new attempt.
// Suspects, whose last attempt was lost (class 16), are asked for by themselves.
//
// The rows to take are fixed by a materialized CTE, since a sub-select with LIMIT may be
// run more than once by some plans. The total limit is maxClaim, written into the text: a
// parameter there makes the planner expect a tenth of all due rows.
//
// Without the row of a worker that is alive (w) nothing is claimed: so whoever takes a
// worker out knows all that it has in flight. What is paused, has an open circuit or is
// held back by its receiver (gate) is left alone, but by asks with tickets, which were
// judged before. That also goes for leases that have run out there: while a destination is
// paused its lost attempts stay as they are, and are closed when it is resumed.
const claimSQL = `
WITH w AS MATERIALIZED (
  SELECT w.owner FROM whctl.workers w WHERE w.owner = $1 FOR KEY SHARE),
gate AS MATERIALIZED (
  SELECT h.destination_id FROM whctl.destination_health h
  WHERE (h.paused_at IS NOT NULL OR h.open_until IS NOT NULL OR h.held_until IS NOT NULL)
    AND (h.paused_at IS NOT NULL OR h.open_until IS NOT NULL OR h.held_until > now())),
c AS MATERIALIZED (
  SELECT l.id, l.due, l.holder, a.lease, a.suspects, row_number() OVER () AS n
  FROM w
  CROSS JOIN unnest($2::bigint[], $3::timestamptz[], $4::int[], $5::double precision[], $6::boolean[], $9::boolean[])
    AS a(destination_id, mark, room, lease, suspects, ticket)
  CROSS JOIN LATERAL (
    SELECT * FROM (
      SELECT d.id, d.next_attempt_at AS due, d.lease_owner AS holder
      FROM whctl.deliveries d
      WHERE NOT a.suspects AND d.state = 0 AND d.destination_id = a.destination_id AND d.class IS DISTINCT FROM 16
        AND d.next_attempt_at >= a.mark AND d.next_attempt_at <= now()
        AND (d.lease_expires_at IS NULL OR d.lease_expires_at < now())
      ORDER BY d.next_attempt_at, d.id
      LIMIT a.room
      FOR UPDATE SKIP LOCKED) ordinary
    UNION ALL
    SELECT * FROM (
      SELECT d.id, d.next_attempt_at, d.lease_owner
      FROM whctl.deliveries d
      WHERE a.suspects AND d.state = 0 AND d.destination_id = a.destination_id AND d.class = 16
        AND d.next_attempt_at <= now()
        AND (d.lease_expires_at IS NULL OR d.lease_expires_at < now())
      ORDER BY d.next_attempt_at, d.id
      LIMIT a.room
      FOR UPDATE SKIP LOCKED) suspect) l
  WHERE a.ticket OR a.destination_id NOT IN (SELECT g.destination_id FROM gate g)
  LIMIT 512),
u AS (
  UPDATE whctl.deliveries d
  SET lease_owner = $1, lease_expires_at = now() + c.lease * interval '1 second',
      attempt_id = coalesce(d.attempt_id, ($7::uuid[])[c.n]),
      attempts = d.attempts + (d.attempt_id IS NULL)::int,
      started_at = CASE WHEN d.attempt_id IS NULL THEN now() ELSE d.started_at END
  FROM c
  WHERE d.id = c.id
  RETURNING d.id, d.attempt_id, d.generation, d.attempts, d.destination_id, c.due, c.holder, c.suspects)
SELECT u.id, u.attempt_id, u.generation, u.attempts, u.destination_id, u.due, coalesce(u.holder, ''), u.suspects,
       coalesce(e.not_after < now(), false), octet_length(e.payload),
       CASE WHEN octet_length(e.payload) <= $8 AND u.holder IS NULL THEN e.payload END,
       e.delivery_id, e.destination, e.tenant, e.subject, e.event_type, e.event_version, e.event_id, e.event_at, e.not_after,
       coalesce(e.body, ''), (SELECT pg_current_xact_id()::text)
FROM u
JOIN whctl.envelopes e ON e.id = u.id
ORDER BY u.due, u.id`

const (
	// claimTries is how often a claim is made whose commit is not answered.
	claimTries = 3
	// maxClaim bounds one claim; claimSQL says it too.
	maxClaim = 512
)

// Claim takes due deliveries, at most as many as there are attempt ids, and starts
// their attempts. A claim whose commit was not answered is looked into, given back where
// it was stored, and made again. An owner that was taken out, or never was there, is
// work.ErrNoWorker.
func (s *Store) Claim(ctx context.Context, r work.ClaimRequest) (work.ClaimResult, error) {
	if err := checkRooms(r); err != nil {
		return work.ClaimResult{}, fmt.Errorf("claim due deliveries: %w", err)
	}
	r.AttemptIDs = slices.Clone(r.AttemptIDs)
	for try := 1; ; try++ {
		result, transaction, err := s.claim(ctx, r)
		if err == nil {
			return result, nil
		}
		if !errors.Is(err, work.ErrUnknown) {
			return work.ClaimResult{}, fmt.Errorf("claim due deliveries: %w", err)
		}
		if err := s.unclaim(ctx, r, transaction); err != nil {
			return work.ClaimResult{}, fmt.Errorf("give back a claim that was not answered: %w: %w", work.ErrUnknown, err)
		}
		if try == claimTries {
			return work.ClaimResult{}, fmt.Errorf("claim due deliveries: %w", err)
		}
		for i := range r.AttemptIDs {
			id, err := uuid.NewV7()
			if err != nil {
				return work.ClaimResult{}, fmt.Errorf("make an attempt id: %w", err)
			}
			r.AttemptIDs[i] = id
		}
	}
}

// claim also answers with the transaction that it was made in; "" for one that took
// nothing.
func (s *Store) claim(ctx context.Context, r work.ClaimRequest) (result work.ClaimResult, transaction string, err error) {
	err = s.write(ctx, func(tx *sqlx.Tx) error {
		result, transaction = work.ClaimResult{}, ""
		t, err := s.tickets(ctx, tx, r)
		if err != nil {
			return err
		}
		if len(t.asks) > 0 {
			if result.Claimed, err = s.claimRows(ctx, tx, r, t.asks, &transaction); err != nil {
				return err
			}
		}
		if len(result.Claimed) == 0 {
			if err := s.alive(ctx, tx, r.Owner); err != nil {
				return err
			}
		}
		result.Health, err = s.spend(ctx, tx, r, t, result.Claimed)
		return err
	})
	return result, transaction, err
}

func (s *Store) claimRows(ctx context.Context, tx *sqlx.Tx, r work.ClaimRequest, asks []work.Ask, transaction *string) ([]work.Claimed, error) {
	claimed := make([]work.Claimed, 0, len(r.AttemptIDs))
	dest, marks, rooms, leases, suspects, tickets := askColumns(asks)
	rows, err := tx.QueryContext(ctx, s.sql(claimSQL), r.Owner, pq.Array(dest), pq.Array(marks), pq.Array(rooms), pq.Array(leases),
		pq.Array(suspects), uuids(r.AttemptIDs), r.InlineMax, pq.Array(tickets))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var row claimedRow
	columns := row.columns()
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return nil, err
		}
		claimed = append(claimed, row.claimed())
	}
	*transaction = row.transaction
	return claimed, rows.Err()
}

// claimedRow is what the rows of a claim are scanned into, one after the other.
type claimedRow struct {
	c                         work.Claimed
	generation, attempt, size int64 // as they come: into an int they would go by way of a text
	notAfter                  sql.NullTime
	transaction               string
}

func (r *claimedRow) columns() []any {
	c, e := &r.c, &r.c.Envelope
	return []any{
		&c.ID, &c.AttemptID, &r.generation, &r.attempt, &c.DestinationID, &c.Due, &c.Holder, &c.Suspect,
		&c.Expired, &r.size, &e.Payload,
		&e.DeliveryID, &e.Destination, &e.Tenant, &e.Subject, &e.EventType, &e.EventVersion, &e.EventID, &e.EventAt, &r.notAfter,
		&e.Body, &r.transaction,
	}
}

func (r *claimedRow) claimed() work.Claimed {
	c := r.c
	c.Generation, c.Attempt, c.PayloadBytes = int(r.generation), int(r.attempt), int(r.size)
	c.Envelope.NotAfter = r.notAfter.Time
	c.Lost = c.Holder != ""
	return c
}

func askColumns(asks []work.Ask) (dest []int64, marks []string, rooms []int64, leases []float64, suspects, tickets []bool) {
	for _, a := range asks {
		mark := "-infinity"
		if !a.Mark.IsZero() {
			mark = a.Mark.UTC().Format(time.RFC3339Nano)
		}
		dest = append(dest, a.DestinationID)
		marks = append(marks, mark)
		rooms = append(rooms, int64(a.Room))
		leases = append(leases, a.Lease.Seconds())
		suspects = append(suspects, a.Suspects)
		tickets = append(tickets, a.Ticket)
	}
	return dest, marks, rooms, leases, suspects, tickets
}

// uuids is written as one array literal; the driver's own array type quotes each.
type uuids []uuid.UUID

// Value is the array literal.
func (us uuids) Value() (driver.Value, error) {
	b := make([]byte, 0, len(us)*33+2)
	b = append(b, '{')
	for i := range us {
		if i > 0 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(b, us[i][:])
	}
	return string(append(b, '}')), nil
}

const payloadSQL = `SELECT payload FROM whctl.envelopes WHERE id = $1`

// Payload reads a payload that was left out of a claim.
func (s *Store) Payload(ctx context.Context, id int64) ([]byte, error) {
	var b []byte
	err := s.read(ctx, func(tx *sqlx.Tx) error { return tx.GetContext(ctx, &b, s.sql(payloadSQL), id) })
	if err != nil {
		return nil, fmt.Errorf("read the payload of row %s: %w", strconv.FormatInt(id, 10), err)
	}
	return b, nil
}
