package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// errKnown: not all orders are new.
var errKnown = errors.New("some of it was there before")

// errVanished: a delivery that kept an order out was gone when it was looked for.
var errVanished = errors.New("the delivery that was there before has just been removed")

// Enqueue puts orders in, in one transaction, and answers with a receipt for each. The
// order of the list is that of insertion; orders may repeat each other. An unanswered
// COMMIT is asked for, so that no order is counted twice. An error that wraps
// work.ErrData is about the content of at least one of them; nothing was kept then.
func (s *Store) Enqueue(ctx context.Context, orders []work.Order) ([]work.Receipt, error) {
	hopeful := !s.known.Load()
	for try := 1; ; try++ {
		var receipts []work.Receipt
		repeated := false
		err := s.certain(ctx, func(tx *sqlx.Tx) (err error) {
			receipts, err = (&stager{store: s, tx: tx, hopeful: hopeful, orderly: repeated}).put(ctx, orders)
			repeated = true
			return err
		})
		switch {
		case errors.Is(err, errKnown):
			hopeful = false
			continue
		case errors.Is(err, errVanished) && try < contentionTries:
			continue
		case err != nil:
			return nil, fmt.Errorf("enqueue %d deliveries: %w", len(orders), dataFault(err))
		}
		if !hopeful {
			s.known.Store(slices.ContainsFunc(receipts, func(r work.Receipt) bool { return r.Result != work.Enqueued }))
		}
		return receipts, nil
	}
}

// errDrop ends a transaction that is not to be kept.
var errDrop = errors.New("not to be kept")

// A stream may be silent for longer than a transaction may stand still (idleWithin).
const standStillSQL = `SET LOCAL idle_in_transaction_session_timeout TO DEFAULT`

// EnqueueAll runs f in one transaction, in which put is Enqueue. It is kept only where
// f says so. It is never run twice, for f may read from a stream: a lost race is an
// error, and so is an unanswered COMMIT whose transaction the server does not have.
func (s *Store) EnqueueAll(ctx context.Context, f func(put func([]work.Order) ([]work.Receipt, error)) (bool, error)) error {
	var id string
	err := s.once(ctx, nil, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, standStillSQL); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &id, transactionIDSQL); err != nil {
			return err
		}
		stager := &stager{store: s, tx: tx}
		keep, err := f(func(orders []work.Order) ([]work.Receipt, error) {
			receipts, err := stager.put(ctx, orders)
			return receipts, fault(err)
		})
		if err == nil && !keep {
			err = errDrop
		}
		return err
	})
	if errors.Is(err, work.ErrUnknown) {
		switch stored, asked := s.stored(ctx, id); {
		case asked == nil && stored:
			err = nil
		case asked == nil:
			err = fmt.Errorf("%w before anything was stored", work.ErrUnreachable)
		}
	}
	if err == nil || errors.Is(err, errDrop) {
		return nil
	}
	return fmt.Errorf("enqueue: %w", dataFault(err))
}

// dataFault marks what the server says about the content of rows: data exceptions,
// broken constraints, and what triggers raise (PostgreSQL documentation, appendix A).
func dataFault(err error) error {
	var server *pq.Error
	if !errors.As(err, &server) {
		return err
	}
	code := string(server.Code)
	if strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || code == "P0001" {
		return &refusal{sentinel: work.ErrData, server: server}
	}
	return err
}

const enqueueFunctionSQL = `
SELECT x.delivery_id, x.result
FROM whctl.enqueue(destination => $1, event_type => $2, subject => $3, payload => $4, tenant => $5, event_version => $6,
                   event_id => $7, event_at => coalesce($8::timestamptz, now()), delivery_id => $9,
                   not_before => $10::timestamptz, not_after => $11::timestamptz) AS x
LIMIT 1`

// EnqueueByFunction is Enqueue for a role that may only call the function. The limit
// of the payload and the kind of the body are those that the destination's row has.
func (s *Store) EnqueueByFunction(ctx context.Context, o work.Order) (work.Receipt, error) {
	var r work.Receipt
	err := s.certain(ctx, func(tx *sqlx.Tx) error {
		return tx.QueryRowxContext(ctx, s.sql(enqueueFunctionSQL), o.Destination, o.EventType, o.Subject, o.Payload, o.Tenant,
			o.EventVersion, o.EventID, instant(o.EventAt), o.DeliveryID, instant(o.NotBefore), instant(o.NotAfter)).
			Scan(&r.DeliveryID, &r.Result)
	})
	switch {
	case pq.As(err, "23503") != nil:
		return work.Receipt{Result: work.UnknownDestination}, nil
	case err != nil:
		return r, fmt.Errorf("enqueue: %w", dataFault(err))
	}
	r.Taken = r.Result == work.Conflict && r.DeliveryID == o.DeliveryID
	return r, nil
}

const mayEnqueueSQL = `
SELECT has_table_privilege('whctl.envelopes', 'INSERT') AND has_table_privilege('whctl.deliveries', 'INSERT')
   AND has_table_privilege('whctl.destinations', 'SELECT') AND has_any_column_privilege('whctl.destinations', 'UPDATE')`

// MayEnqueue says whether the role may write the tables itself, not only through the
// function.
func (s *Store) MayEnqueue(ctx context.Context) (bool, error) {
	var may bool
	err := s.read(ctx, func(tx *sqlx.Tx) error { return tx.GetContext(ctx, &may, s.sql(mayEnqueueSQL)) })
	if err != nil {
		return false, fmt.Errorf("ask for the role's grants: %w", err)
	}
	return may, nil
}

const namedDestinationsSQL = `
SELECT x.id, x.name, x.policy, coalesce(x.body, '') FROM whctl.destinations x WHERE x.name = ANY($1) ORDER BY x.id`

// NamedDestinations finds destinations by name, with no more than id, name, policy and
// kind of body. Names that nobody has are left out.
func (s *Store) NamedDestinations(ctx context.Context, names []string) ([]work.Destination, error) {
	var found []work.Destination
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		found = nil
		rows, err := tx.QueryContext(ctx, s.sql(namedDestinationsSQL), pq.Array(names))
		if err != nil {
			return err
		}
		return scanAll(rows, func(scan func(...any) error) error {
			var d work.Destination
			err := scan(&d.ID, &d.Name, &d.Policy, &d.Body)
			found = append(found, d)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("find destinations: %w", err)
	}
	return found, nil
}

// scanAll calls f for each row, and closes rows.
func scanAll(rows *sql.Rows, f func(scan func(...any) error) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
