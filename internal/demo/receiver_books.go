package demo

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// booksLeftSQL is how long it takes until everything that is not finished may be
// tried: its due time has come, or its lease has run out. The database's clock decides.
const booksLeftSQL = `
SELECT count(*), coalesce(max(extract(epoch FROM coalesce(lease_expires_at, next_attempt_at) - clock_timestamp())), 0)::double precision
FROM whctl.delivery_status
WHERE state IN ('scheduled', 'leased')`

// left is how many deliveries are not finished, and how long until all of them are due;
// negative once they are.
func left(ctx context.Context, db *sql.DB) (open int, wait time.Duration, err error) {
	var s float64
	if err := db.QueryRowContext(ctx, booksLeftSQL).Scan(&open, &s); err != nil {
		return 0, 0, fmt.Errorf("ask what is due: %w", err)
	}
	return open, seconds(s), nil
}

// booksDueSQL is what the policy computed after a failure. A later attempt
// overwrites it, so that it has to be asked for before.
const booksDueSQL = `
SELECT s.subject, s.next_attempt_at
FROM whctl.delivery_status s
WHERE s.state = 'scheduled' AND s.attempts > 0
ORDER BY s.subject`

// due is a delivery that is to be tried again.
type due struct {
	subject string
	at      time.Time
}

func retries(ctx context.Context, db *sql.DB) ([]due, error) {
	rows, err := db.QueryContext(ctx, booksDueSQL)
	if err != nil {
		return nil, fmt.Errorf("ask for retries: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var all []due
	for rows.Next() {
		var d due
		if err := rows.Scan(&d.subject, &d.at); err != nil {
			return nil, fmt.Errorf("ask for retries: %w", err)
		}
		all = append(all, d)
	}
	return all, rows.Err()
}

const booksStartSQL = `
SELECT started_at FROM whctl.attempt_history WHERE delivery_id = $1 ORDER BY generation DESC, attempt DESC LIMIT 1`

// started is when the last attempt of a delivery started.
func started(ctx context.Context, db *sql.DB, id string) (time.Time, error) {
	var at time.Time
	if err := db.QueryRowContext(ctx, booksStartSQL, id).Scan(&at); err != nil {
		return at, fmt.Errorf("ask for the last attempt of %s: %w", id, err)
	}
	return at, nil
}

const booksPostsSQL = `
SELECT max(p.id), p.status, p.result, string_agg(p.enrolment, ' ' ORDER BY p.enrolment)
FROM registrar.posts p
WHERE p.id > $1
GROUP BY p.status, p.result
ORDER BY p.status, min(p.id)`

// answers are POSTs that got the same answer.
type answers struct {
	status     int
	result     string
	enrolments string
}

// seenSince is what the receiver answered to the POSTs behind number last, and the
// number of the latest one.
func seenSince(ctx context.Context, db *sql.DB, last int64) ([]answers, int64, error) {
	rows, err := db.QueryContext(ctx, booksPostsSQL, last)
	if err != nil {
		return nil, last, fmt.Errorf("read the registrar's log: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var all []answers
	for rows.Next() {
		var a answers
		var id int64
		if err := rows.Scan(&id, &a.status, &a.result, &a.enrolments); err != nil {
			return nil, last, fmt.Errorf("read the registrar's log: %w", err)
		}
		last = max(last, id)
		all = append(all, a)
	}
	return all, last, rows.Err()
}

const booksWorkersSQL = `
SELECT count(*), count(*) FILTER (WHERE worker = $1), count(*) FILTER (WHERE worker = $2), count(DISTINCT delivery_id)
FROM whctl.attempt_history`

// shares is who made how many of all attempts so far, for how many deliveries.
type shares struct{ all, first, second, deliveries int }

func shared(ctx context.Context, db *sql.DB, first, second string) (shares, error) {
	var s shares
	if err := db.QueryRowContext(ctx, booksWorkersSQL, first, second).Scan(&s.all, &s.first, &s.second, &s.deliveries); err != nil {
		return s, fmt.Errorf("ask who sent what: %w", err)
	}
	return s, nil
}
