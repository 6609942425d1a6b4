package demo

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// goodBooks are both sides as the story leaves them when every attempt is the first.
func goodBooks(t *testing.T) *testbed.Database {
	t.Helper()
	d := testbed.DB(t)
	if err := prepareReceiver(t.Context(), d.Admin.DB); err != nil {
		t.Fatal(err)
	}
	d.Destination(t, destination, "https://127.0.0.1:1/enrolments")
	for _, e := range events() {
		payload, err := json.Marshal(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		testbed.Exec(t, d, `SELECT whctl.enqueue($1, $2, $3, $4, event_at => $5, delivery_id => $6)`,
			e.Destination, e.Type, e.Subject, payload, e.EventAt, e.DeliveryID)
		if e.Subject != malformed {
			testbed.Exec(t, d, `INSERT INTO registrar.enrolments VALUES ($1, $2, $3, $4)`, e.DeliveryID, e.Subject, e.Payload.Course, e.EventAt)
			testbed.Exec(t, d, `INSERT INTO registrar.courses AS c VALUES ($1, 1) ON CONFLICT (course) DO UPDATE SET seats = c.seats + 1`, e.Payload.Course)
		}
	}
	testbed.Plant(t, d, `
UPDATE whctl.deliveries d
SET next_attempt_at = NULL, started_at = now(), finished_at = now(), attempts = 1, state = x.state, class = x.class,
    status = x.status, reason = x.reason, fingerprint = x.fingerprint
FROM (SELECT e.id, r.* FROM whctl.envelopes e
      JOIN (VALUES (false, 1, 1, 200, NULL, NULL), (true, 2, 14, 400, 1, 'rejected 400')) r (malformed, state, class, status, reason, fingerprint)
      ON r.malformed = (e.subject = $1)) x
WHERE d.id = x.id`, malformed)
	testbed.Exec(t, d, `
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, latency_us, generation, attempt, class, status, worker, message, excerpt)
SELECT d.id, gen_random_uuid(), d.started_at, 1000, 1, 1, d.class, d.status, 'w#1', CASE WHEN d.state = 2 THEN '400 Bad Request' END,
       CASE WHEN d.state = 2 THEN 'student.birth_date: [redacted] is no date' END
FROM whctl.deliveries d`)
	testbed.Exec(t, d, `
INSERT INTO registrar.posts (idempotency_key, attempt_id, generation, attempt, enrolment, body_sha256, status, result, applied, started_at)
SELECT e.delivery_id, a.attempt_id, 1, 1, e.subject, 'sum of ' || e.subject, a.status, 'words', a.status = 200, a.started_at
FROM whctl.attempts a JOIN whctl.envelopes e ON e.id = a.delivery_id`)
	return d
}

// failed are the claims that did not hold.
func failed(t *testing.T, db *sql.DB) []string {
	t.Helper()
	results, err := audit(t.Context(), db, events())
	if err != nil {
		t.Fatal(err)
	}
	var claims []string
	for _, a := range results {
		if len(a.broken) > 0 {
			t.Logf("%s: %s", a.claim, strings.Join(a.broken, "; "))
			claims = append(claims, a.claim)
		}
	}
	return claims
}

func TestAccountsOfGoodBooks(t *testing.T) {
	t.Parallel()
	if claims := failed(t, goodBooks(t).Admin.DB); len(claims) > 0 {
		t.Errorf("they do not hold: %q", claims)
	}
}

// Each fault, planted into good books, turns the account red that is about it.
func TestAccountsSeeWhatIsWrong(t *testing.T) {
	t.Parallel()
	const (
		totals   = "11 delivered, 1 dead"
		enrolled = "the registrar enrolled exactly those that whctl calls delivered"
		once     = "no state change applied twice"
		posts    = "every POST that the registrar saw is an attempt on record, with the same answer"
		attempts = "every attempt on record was seen by the registrar, and is counted"
		same     = "the same bytes and a right signature on every attempt"
		reason   = "the dead letter says why, without a word about the student"
		table    = "the invariants of the work table hold"
	)
	for name, c := range map[string]struct {
		plant string
		want  []string
	}{
		"a change applied twice": {`UPDATE registrar.courses SET seats = seats + 1 WHERE course = 'BOTANY-2'`, []string{once}},
		"a change forgotten":     {`DELETE FROM registrar.courses WHERE course = 'BOTANY-2'`, []string{once}},
		"applied twice in the log": {
			`
INSERT INTO registrar.posts (idempotency_key, attempt_id, generation, attempt, enrolment, body_sha256, status, result, applied, started_at)
SELECT idempotency_key, attempt_id, 1, 1, enrolment, body_sha256, 200, result, true, started_at FROM registrar.posts WHERE enrolment = 'E-02'`,
			[]string{once, posts, table},
		},
		"a POST that nobody recorded": {
			`
INSERT INTO registrar.posts (idempotency_key, attempt_id, generation, attempt, enrolment, body_sha256, status, result, applied, started_at)
VALUES ('enrolment-E-02', 'd2719c2e-8e12-4a3b-9f0c-5f5a2a2c7b11', 1, 2, 'E-02', 'sum of E-02', 200, 'words', false, now() + interval '1 second')`,
			[]string{posts, table},
		},
		"another answer":             {`UPDATE registrar.posts SET status = 503 WHERE enrolment = 'E-02'`, []string{posts, table}},
		"another number":             {`UPDATE registrar.posts SET attempt = 2 WHERE enrolment = 'E-02'`, []string{posts, table}},
		"an attempt that never came": {`DELETE FROM registrar.posts WHERE enrolment = 'E-02'`, []string{attempts}},
		"an attempt not counted":     {`UPDATE whctl.deliveries SET attempts = 2 WHERE state = 1 AND id = (SELECT id FROM whctl.envelopes WHERE subject = 'E-02')`, []string{attempts, table}},
		"delivered, not enrolled":    {`DELETE FROM registrar.enrolments WHERE enrolment = 'E-02'`, []string{enrolled, once}},
		"enrolled, not known":        {`INSERT INTO registrar.enrolments VALUES ('x', 'E-99', 'BOTANY-2', now())`, []string{enrolled, once}},
		"one that is still open":     {`SELECT whctl.enqueue('registrar', 'enrolment.created', 'E-13', '{}')`, []string{totals}},
		"other bytes": {
			`
WITH a AS (
  INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, generation, attempt, class, status, worker)
  SELECT id, 'd2719c2e-8e12-4a3b-9f0c-5f5a2a2c7b11', now(), 1, 2, 1, 200, 'w#1' FROM whctl.envelopes WHERE subject = 'E-02')
INSERT INTO registrar.posts (idempotency_key, attempt_id, generation, attempt, enrolment, body_sha256, status, result, applied, started_at)
VALUES ('enrolment-E-02', 'd2719c2e-8e12-4a3b-9f0c-5f5a2a2c7b11', 1, 2, 'E-02', 'other', 200, 'words', false, now() + interval '1 second')`,
			[]string{attempts, same, table},
		},
		"a wrong signature": {`UPDATE registrar.posts SET status = 401 WHERE enrolment = 'E-02'`, []string{posts, same, table}},
		"no words": {`
ALTER TABLE whctl.attempts DISABLE TRIGGER USER;
UPDATE whctl.attempts SET excerpt = NULL WHERE class = 14`, []string{reason}},
		"a student's data": {`
ALTER TABLE whctl.attempts DISABLE TRIGGER USER;
UPDATE whctl.attempts SET excerpt = 'student.birth_date: 31/02/2007 is no date' WHERE class = 14`, []string{reason}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := goodBooks(t)
			testbed.Exec(t, d, c.plant)
			got := failed(t, d.Admin.DB)
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("failed %q, want %q", got, c.want)
			}
		})
	}
}
