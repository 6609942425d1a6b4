package demo

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	_ "github.com/lib/pq" // the driver of the receiver and of the accounts
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// receiverRolesSQL: whctl owns its schema and sees nothing of the receiver's, and the
	// other way round. Both log in through the socket, where no password is needed.
	receiverRolesSQL = `
CREATE ROLE whctl LOGIN;
CREATE ROLE registrar LOGIN;
GRANT CREATE ON DATABASE postgres TO whctl, registrar`

	// receiverSchemaSQL is the receiver's own world. That an enrolment is applied shows
	// in seats: a key that is not recognised would take a second one.
	receiverSchemaSQL = `
CREATE SCHEMA registrar;
CREATE TABLE registrar.courses (
    course text NOT NULL PRIMARY KEY,
    seats  integer NOT NULL
);
CREATE TABLE registrar.enrolments (
    idempotency_key text NOT NULL PRIMARY KEY,
    enrolment       text NOT NULL,
    course          text NOT NULL,
    enrolled_at     timestamptz NOT NULL
);
CREATE TABLE registrar.posts (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key text NOT NULL,
    attempt_id      text NOT NULL,
    generation      integer NOT NULL,
    attempt         integer NOT NULL,
    enrolment       text NOT NULL,
    body_sha256     text NOT NULL,
    status          integer NOT NULL,
    result          text NOT NULL,
    applied         boolean NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz NOT NULL DEFAULT clock_timestamp()
)`

	// The key comes first: of two requests with the same one, the second waits here for
	// the first one's commit.
	receiverKeySQL = `
INSERT INTO registrar.enrolments (idempotency_key, enrolment, course, enrolled_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (idempotency_key) DO NOTHING`

	receiverApplySQL = `
INSERT INTO registrar.courses AS c (course, seats) VALUES ($1, 1)
ON CONFLICT (course) DO UPDATE SET seats = c.seats + 1`

	receiverLogSQL = `
INSERT INTO registrar.posts (idempotency_key, attempt_id, generation, attempt, enrolment, body_sha256, status, result, applied, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
)

const (
	// bodyMax bounds a request's body, in bytes.
	bodyMax = 1 << 20
	// thinking is how long the receiver takes for each request, so that two ticks at the
	// same moment both have work to do.
	thinking = 40 * time.Millisecond
)

// fault is what goes wrong with one attempt of one enrolment.
type fault int

const (
	unavailable fault = iota + 1 // 503, nothing applied
	silence                      // applied and committed, but the answer is held back until the sender is gone
)

// try is one attempt of one enrolment, in the first generation.
type try struct {
	enrolment string
	attempt   int
}

// receiver is the registrar: a program of its own that happens to run in this process.
type receiver struct {
	db        *sql.DB
	webhook   *standardwebhooks.Webhook
	faults    map[try]fault
	committed chan string // an enrolment whose answer is being held back
	url       string
	server    *http.Server
	ended     chan struct{}
}

// prepareRoles makes the roles of whctl and of the receiver.
func prepareRoles(ctx context.Context, admin *sql.DB) error {
	return inTx(ctx, admin, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, receiverRolesSQL)
		return err
	})
}

// prepareReceiver makes the receiver's tables.
func prepareReceiver(ctx context.Context, db *sql.DB) error {
	return inTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, receiverSchemaSQL)
		return err
	})
}

// startReceiver listens on a free port of 127.0.0.1. Its tables must be there.
func startReceiver(ctx context.Context, db *sql.DB, secret string, certificate tls.Certificate) (*receiver, error) {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	r := &receiver{
		db: db, webhook: webhook, committed: make(chan string, 1), url: "https://" + l.Addr().String() + "/enrolments",
		faults: map[try]fault{{stumbling, 1}: unavailable, {retried, 1}: unavailable, {orphaned, 1}: silence},
		ended:  make(chan struct{}),
	}
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // the killed worker's connection breaks, as it should
	}
	go func() {
		defer close(r.ended)
		// It ends when it is closed, and only then.
		_ = r.server.Serve(tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}))
	}()
	return r, nil
}

// close breaks what is open off, and returns when nobody listens any more.
func (r *receiver) close() error {
	err := r.server.Close()
	<-r.ended
	return errors.Join(err, r.db.Close())
}

// settle carries out one request and writes it down, all in one transaction: the key,
// the change of state and the line of the log are there together, or none of them.
func (r *receiver) settle(ctx context.Context, p *post) error {
	return inTx(ctx, r.db, func(tx *sql.Tx) error {
		if p.status == http.StatusOK {
			if err := r.apply(ctx, tx, p); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, receiverLogSQL, p.key, p.attemptID, p.generation, p.attempt, p.Subject, p.sha256,
			p.status, p.result, p.applied, p.started)
		return err
	})
}

// apply takes a seat for a key that is new. A known key changes nothing.
func (r *receiver) apply(ctx context.Context, tx *sql.Tx, p *post) error {
	res, err := tx.ExecContext(ctx, receiverKeySQL, p.key, p.Subject, p.Data.Course, p.OccurredAt)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		p.result = "known already, nothing changed"
		return nil
	}
	p.applied = true
	_, err = tx.ExecContext(ctx, receiverApplySQL, p.Data.Course)
	return err
}

// inTx runs f in a transaction. The driver may run a lone statement twice when the link
// dies; a transaction it does not.
func inTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
