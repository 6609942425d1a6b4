package demo

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"

	"example.com/whctl/internal/checker"
)

// What the story ends with.
const (
	wantDelivered = 11
	wantDead      = 1
)

// account is one claim about how it all ended. Its statement answers with what
// contradicts the claim, a text for each; no rows prove it.
type account struct {
	claim string
	sql   string
	args  []any
}

// accountsTotalsSQL counts all twelve, so that a delivery that is missing, or in any other
// state, shows as well.
const accountsTotalsSQL = `
SELECT format('whctl has %s delivered, %s dead, %s in other states', n.delivered, n.dead, n.others)
FROM (SELECT count(*) FILTER (WHERE state = 'delivered') AS delivered, count(*) FILTER (WHERE state = 'dead') AS dead,
             count(*) FILTER (WHERE state NOT IN ('delivered', 'dead')) AS others
      FROM whctl.delivery_status) n
WHERE (n.delivered, n.dead, n.others) <> ($1::bigint, $2::bigint, 0)`

const accountsEnrolledSQL = `
SELECT format('%s is %s in whctl, and the registrar has %s', coalesce(s.delivery_id, e.idempotency_key), coalesce(s.state, 'unknown'),
              CASE WHEN e.idempotency_key IS NULL THEN 'no enrolment' ELSE 'one enrolment' END)
FROM whctl.delivery_status s
FULL JOIN registrar.enrolments e ON e.idempotency_key = s.delivery_id
WHERE (s.state IS NOT DISTINCT FROM 'delivered') <> (e.idempotency_key IS NOT NULL)`

// Seats are what an enrolment changes. A change applied twice shows as two seats for one
// key; the log tells whose.
const accountsOnceSQL = `
SELECT format('%s: %s seats taken by %s enrolments', coalesce(c.course, e.course), coalesce(c.seats, 0), coalesce(e.n, 0))
FROM registrar.courses c
FULL JOIN (SELECT course, count(*) AS n FROM registrar.enrolments GROUP BY course) e ON e.course = c.course
WHERE coalesce(c.seats, 0) <> coalesce(e.n, 0)
UNION ALL
SELECT format('%s was applied %s times', p.idempotency_key, count(*))
FROM registrar.posts p
WHERE p.applied
GROUP BY p.idempotency_key
HAVING count(*) > 1`

// An attempt without a status is one of which whctl does not know the answer; the
// receiver may know better.
const accountsPostsSQL = `
SELECT format('%s: the registrar answered %s to attempt %s, whctl has %s', p.idempotency_key, p.status, p.attempt,
              CASE WHEN a.attempt_id IS NULL THEN 'no such attempt' ELSE coalesce(a.status::text, a.class, 'an open attempt') END)
FROM registrar.posts p
LEFT JOIN whctl.attempt_history a ON a.attempt_id::text = p.attempt_id
     AND (a.delivery_id, a.generation, a.attempt) = (p.idempotency_key, p.generation, p.attempt)
WHERE a.attempt_id IS NULL OR a.finished_at IS NULL OR a.status <> p.status
UNION ALL
SELECT format('%s: attempt %s was sent %s times', min(p.idempotency_key), p.attempt_id, count(*))
FROM registrar.posts p
GROUP BY p.attempt_id
HAVING count(*) > 1`

const accountsAttemptsSQL = `
SELECT format('%s: attempt %s (%s) is on record, the registrar saw none', a.delivery_id, a.attempt, coalesce(a.class, 'open'))
FROM whctl.attempt_history a
WHERE (a.status IS NOT NULL OR a.finished_at IS NULL)
  AND NOT EXISTS (SELECT FROM registrar.posts p WHERE p.attempt_id = a.attempt_id::text)
UNION ALL
SELECT format('%s: %s attempts counted, %s on record', s.delivery_id, s.attempts, count(a.attempt_id))
FROM whctl.delivery_status s
LEFT JOIN whctl.attempt_history a ON a.delivery_id = s.delivery_id AND a.generation = s.generation
GROUP BY s.delivery_id, s.attempts
HAVING count(a.attempt_id) <> s.attempts`

const accountsBytesSQL = `
SELECT format('%s: %s different bodies', p.idempotency_key, count(DISTINCT p.body_sha256))
FROM registrar.posts p
GROUP BY p.idempotency_key
HAVING count(DISTINCT p.body_sha256) > 1
UNION ALL
SELECT format('%s: attempt %s had a signature that is not right', p.idempotency_key, p.attempt)
FROM registrar.posts p
WHERE p.status = 401`

// The reason has to be there for a person to read, and the person's data not.
const accountsReasonSQL = `
SELECT format('%s: died as %s %s with the words "%s"', s.delivery_id, coalesce(s.class, 'nothing'), coalesce(s.status, 0), a.excerpt)
FROM whctl.delivery_status s
JOIN whctl.attempt_history h ON h.delivery_id = s.delivery_id AND h.attempt = s.attempts AND h.generation = s.generation
JOIN whctl.attempts a ON a.attempt_id = h.attempt_id
WHERE s.state = 'dead'
  AND (s.delivery_id, s.class, s.status, s.attempts) IS DISTINCT FROM ($1, 'rejected', 400::smallint, 1)
   OR s.state = 'dead' AND strpos(coalesce(a.excerpt, ''), 'student.birth_date') = 0
UNION ALL
SELECT 'the data of a student stand in the words kept of attempt ' || a.attempt_id
FROM whctl.attempts a
JOIN unnest($2::text[]) AS datum ON strpos(coalesce(a.message, '') || ' ' || coalesce(a.excerpt, ''), datum) > 0`

// accounts are what is claimed at the end, in the words in which it is printed.
func accounts(all []event) []account {
	return []account{
		{fmt.Sprintf("%d delivered, %d dead", wantDelivered, wantDead), accountsTotalsSQL, []any{wantDelivered, wantDead}},
		{"the registrar enrolled exactly those that whctl calls delivered", accountsEnrolledSQL, nil},
		{"no state change applied twice", accountsOnceSQL, nil},
		{"every POST that the registrar saw is an attempt on record, with the same answer", accountsPostsSQL, nil},
		{"every attempt on record was seen by the registrar, and is counted", accountsAttemptsSQL, nil},
		{"the same bytes and a right signature on every attempt", accountsBytesSQL, nil},
		{"the dead letter says why, without a word about the student", accountsReasonSQL, []any{deliveryID(malformed), pq.Array(personal(all))}},
	}
}

// audited is an account and what contradicts it.
type audited struct {
	claim  string
	broken []string
}

// audit goes through all accounts, from both sides, and then lets the independent
// checker of the tables have its say.
func audit(ctx context.Context, db *sql.DB, all []event) ([]audited, error) {
	var results []audited
	for _, a := range accounts(all) {
		broken, err := texts(ctx, db, a.sql, a.args...)
		if err != nil {
			return nil, fmt.Errorf("check %q: %w", a.claim, err)
		}
		results = append(results, audited{a.claim, broken})
	}
	seen, err := seenPosts(ctx, db)
	if err != nil {
		return nil, err
	}
	violations, err := checker.Check(ctx, db, "whctl", seen)
	if err != nil {
		return nil, err
	}
	last := audited{claim: "the invariants of the work table hold"}
	for _, v := range violations {
		last.broken = append(last.broken, v.String())
	}
	return append(results, last), nil
}

// texts are the rows of a statement that answers with one text each.
func texts(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, strings.TrimSpace(query), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

const accountsSeenSQL = `
SELECT p.idempotency_key, p.attempt_id, p.generation, p.attempt, p.body_sha256, p.status, p.started_at, p.finished_at
FROM registrar.posts p
ORDER BY p.id`

// seenPosts is the receiver's log as the checker reads it.
func seenPosts(ctx context.Context, db *sql.DB) ([]checker.Seen, error) {
	rows, err := db.QueryContext(ctx, accountsSeenSQL)
	if err != nil {
		return nil, fmt.Errorf("read the registrar's log: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var seen []checker.Seen
	for rows.Next() {
		var s checker.Seen
		if err := rows.Scan(&s.DeliveryID, &s.AttemptID, &s.Generation, &s.Attempt, &s.BodySHA256, &s.Status, &s.Started, &s.Finished); err != nil {
			return nil, fmt.Errorf("read the registrar's log: %w", err)
		}
		seen = append(seen, s)
	}
	return seen, rows.Err()
}

// seconds turns what the database computed into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
