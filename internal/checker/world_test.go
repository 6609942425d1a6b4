package checker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"example.com/whctl/internal/checker"
	"example.com/whctl/internal/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// epoch is when the world below begins; its times are seconds after it.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// orNull is NULL for the zero value, which no column of the world has.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// row is a delivery. Zero is NULL; open holds the attempt that is open.
type row struct {
	id, state, generation, attempts int
	due, finished                   int
	class, status, reason           int
	open                            *try
	notAfter                        int
}

// try is an attempt; finished 0: it is the open one of its row. posted, answered and
// left are what the receiver saw of it, 0 for nothing.
type try struct {
	id, generation, number  int
	started, finished       int
	class, status           int
	posted, left, answering int
}

func (a try) attemptID() string {
	return fmt.Sprintf("%08d-0000-4000-8000-%04d%08d", a.id, a.generation, a.number)
}

func deliveryID(id int) string { return fmt.Sprintf("delivery-%d", id) }

const body = "a body"

func (a try) seen() checker.Seen {
	sum := sha256.Sum256([]byte(body))
	s := checker.Seen{
		DeliveryID: deliveryID(a.id), AttemptID: a.attemptID(), Generation: a.generation, Attempt: a.number,
		BodySHA256: hex.EncodeToString(sum[:]), Status: a.answering, Started: at(a.posted),
	}
	if a.left > 0 {
		s.Finished = at(a.left)
	}
	return s
}

// The world is one lawful delivery of each kind, by id, with a budget of 2 attempts and a
// lease of 10 s.
var (
	rows = []row{
		{id: 1, generation: 1, due: 5},                                                                                 // fresh
		{id: 2, generation: 1, attempts: 1, due: 500, class: 15, status: 503},                                          // to be tried again
		{id: 3, generation: 1, attempts: 2, due: 121, class: 16, open: &tries[2]},                                      // leased, after a lost attempt
		{id: 4, state: 1, generation: 1, attempts: 2, finished: 201, class: 1, status: 200},                            // delivered at the second try
		{id: 5, state: 2, generation: 1, attempts: 2, finished: 201, class: 2, reason: 2},                              // exhausted
		{id: 6, state: 2, generation: 1, attempts: 1, finished: 101, class: 14, status: 404, reason: 1},                // permanent
		{id: 7, state: 2, generation: 1, attempts: 2, finished: 211, class: 16, reason: 3},                             // lost
		{id: 8, state: 3, generation: 1, finished: 300, reason: 8},                                                     // cancelled by its producer
		{id: 9, state: 3, generation: 1, attempts: 1, finished: 300, class: 15, status: 500, reason: 6, notAfter: 290}, // too late
		{id: 10, state: 4, generation: 1, attempts: 1, finished: 300, class: 12, status: 401, reason: 9},               // discarded
		{id: 11, state: 1, generation: 2, attempts: 1, finished: 501, class: 1, status: 204},                           // redriven
		{id: 12, state: 1, generation: 1, attempts: 2, finished: 125, class: 1, status: 200},                           // by a late success, while the next attempt was open
		{id: 13, state: 2, generation: 1, attempts: 1, finished: 101, class: 8, reason: 4},                             // blocked
		{id: 14, state: 2, generation: 1, attempts: 1, finished: 101, class: 10, reason: 5},                            // invalid
		{id: 15, state: 2, generation: 2, finished: 201, class: 13, status: 429, reason: 2},                            // redrive called off
		{id: 16, state: 3, generation: 1, finished: 300, reason: 7},                                                    // guard
		{id: 17, state: 1, generation: 1, attempts: 2, finished: 104, class: 1, status: 200},                           // after a time-out that the receiver noticed late
		{id: 18, state: 2, generation: 1, attempts: 2, finished: 111, class: 16, reason: 3},                            // lost at first, a 503 after all
	}
	tries = []try{
		{2, 1, 1, 100, 101, 15, 503, 100, 101, 503},
		{3, 1, 1, 100, 121, 16, 0, 100, 0, 0},
		{3, 1, 2, 121, 0, 0, 0, 122, 0, 0},
		{4, 1, 1, 100, 101, 15, 503, 100, 101, 503},
		{4, 1, 2, 200, 201, 1, 200, 200, 201, 200},
		{5, 1, 1, 100, 102, 2, 0, 100, 102, 0},
		{5, 1, 2, 199, 201, 2, 0, 199, 201, 0},
		{6, 1, 1, 100, 101, 14, 404, 100, 101, 404},
		{7, 1, 1, 100, 101, 7, 999, 100, 101, 999},
		{7, 1, 2, 200, 211, 16, 0, 0, 0, 0},
		{9, 1, 1, 100, 101, 15, 500, 100, 101, 500},
		{10, 1, 1, 100, 101, 12, 401, 100, 101, 401},
		{11, 1, 1, 100, 101, 4, 0, 0, 0, 0},
		{11, 1, 2, 200, 201, 11, 302, 200, 201, 302},
		{11, 2, 1, 500, 501, 1, 204, 500, 501, 204},
		{12, 1, 1, 100, 125, 1, 200, 100, 124, 200},
		{12, 1, 2, 121, 125, 16, 0, 121, 0, 0},
		{13, 1, 1, 100, 101, 8, 0, 0, 0, 0},
		{14, 1, 1, 100, 101, 10, 0, 0, 0, 0},
		{15, 1, 1, 100, 101, 13, 429, 100, 101, 429},
		{15, 1, 2, 200, 201, 13, 429, 200, 201, 429},
		{17, 1, 1, 100, 102, 2, 0, 100, 104, 0},
		{17, 1, 2, 103, 104, 1, 200, 103, 104, 200},
		{18, 1, 1, 50, 51, 6, 0, 50, 51, 0},
		{18, 1, 2, 100, 113, 15, 503, 100, 112, 503},
	}
	audits = [][2]string{{"cancel", deliveryID(8)}, {"discard", deliveryID(10)}, {"redrive", deliveryID(11)}, {"redrive", deliveryID(15)}}

	worldOptions = []checker.Option{checker.MaxAttempts(2), checker.Lease(10 * time.Second), checker.CompleteLog()}
)

// world is a database with the world in it, and what its receiver saw.
func world(t *testing.T) (*testbed.Database, []checker.Seen) {
	t.Helper()
	db := testbed.DB(t)
	db.Destination(t, "receiver", "https://receiver.test/")
	for _, r := range rows {
		testbed.Exec(t, db, `
INSERT INTO whctl.envelopes (id, event_at, delivery_id, destination, subject, event_type, event_version, payload, not_after)
VALUES ($1, $2, $3, 'receiver', $3, 'test.happened', '1', '{}', $4)`, r.id, epoch, deliveryID(r.id), orNullTime(r.notAfter))
		var open try
		var owner string
		lease := 0
		if r.open != nil {
			open, owner, lease = *r.open, "w#1", r.open.started+10
		}
		testbed.Plant(t, db, `
INSERT INTO whctl.deliveries (id, destination_id, state, generation, attempts, next_attempt_at, finished_at, class, status, reason,
                              started_at, attempt_id, lease_owner, lease_expires_at)
SELECT $1, x.id, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $12::text <> '' THEN $11::uuid END, nullif($12, ''), $13
FROM whctl.destinations x`, r.id, r.state, r.generation, r.attempts, orNullTime(r.due), orNullTime(r.finished), orNull(r.class), orNull(r.status),
			orNull(r.reason), orNullTime(open.started), open.attemptID(), owner, orNullTime(lease))
	}
	var seen []checker.Seen
	for _, a := range tries {
		if a.posted > 0 {
			seen = append(seen, a.seen())
		}
		if a.finished == 0 {
			continue
		}
		testbed.Exec(t, db, `
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, generation, attempt, class, status, worker)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'w#1')`,
			a.id, a.attemptID(), at(a.started), at(a.finished), a.generation, a.number, a.class, orNull(a.status))
	}
	for _, l := range audits {
		testbed.Exec(t, db, `INSERT INTO whctl.audit_log (operator, action, reason, delivery_id) VALUES ('op', $1, 'because', $2)`, l[0], l[1])
	}
	return db, seen
}

func orNullTime(seconds int) any {
	if seconds == 0 {
		return nil
	}
	return at(seconds)
}
