package checker

// Rules about what receivers saw. Their clock is compared with itself alone, never with
// the database's.

// Every POST has its attempt, closed or open.
const postWithoutAttempt = posts + `
SELECT s.delivery_id, format('the receiver saw attempt id %s (number %s of generation %s), no attempt of this delivery has it', s.attempt_id, s.attempt, s.generation)
FROM seen s
WHERE NOT EXISTS (SELECT FROM envelopes e JOIN entries x ON x.id = e.id
                  WHERE e.delivery_id = s.delivery_id AND CAST(x.attempt_id AS text) = s.attempt_id)`

// A POST bears the number and the generation of its attempt.
const postNumber = posts + `
SELECT s.delivery_id, format('the POST of attempt id %s said number %s of generation %s, its attempt is number %s of generation %s',
    s.attempt_id, s.attempt, s.generation, x.attempt, x.generation)
FROM seen s
JOIN envelopes e ON e.delivery_id = s.delivery_id
JOIN entries x ON x.id = e.id AND CAST(x.attempt_id AS text) = s.attempt_id
WHERE s.attempt <> x.attempt OR s.generation <> x.generation`

// One attempt is one POST.
const postTwice = posts + `
SELECT min(s.delivery_id), format('the receiver saw attempt id %s %s times', s.attempt_id, count(*))
FROM seen s
GROUP BY s.attempt_id
HAVING count(*) > 1`

// All POSTs of a delivery carry the same bytes, in every generation.
const postBody = posts + `
SELECT s.delivery_id, format('%s POSTs carried %s different bodies', count(*), count(DISTINCT s.body))
FROM seen s
WHERE s.body <> ''
GROUP BY s.delivery_id
HAVING count(DISTINCT s.body) > 1`

// overlaps is two POSTs of one delivery of which the later (s) started before the earlier
// (r) was answered or left, with their attempts (y and x).
const overlaps = `
FROM seen r
JOIN seen s ON s.delivery_id = r.delivery_id AND (s.started, s.n) > (r.started, r.n) AND (r.finished = 0 OR s.started < r.finished)
LEFT JOIN envelopes e ON e.delivery_id = r.delivery_id
LEFT JOIN entries x ON x.id = e.id AND CAST(x.attempt_id AS text) = r.attempt_id
LEFT JOIN entries y ON y.id = e.id AND CAST(y.attempt_id AS text) = s.attempt_id`

// No two POSTs of a delivery are open at once, unless the earlier attempt was lost: it
// still is (16), or its result came late, after the later one had started. Of one that
// ended without an answer, the receiver may notice late that nobody waits any more.
const postOverlap = posts + `
SELECT r.delivery_id, format('attempt id %s was POSTed while attempt id %s was open', s.attempt_id, r.attempt_id)` + overlaps + `
WHERE x.class IS DISTINCT FROM 16
  AND (x.finished_at IS NULL OR y.id IS NULL
       OR x.finished_at <= y.started_at AND x.status IS NOT NULL)`

// An attempt that the receiver answered in the end is not lost before its lease is over,
// so that the next one starts no sooner than a lease after it.
const postWithinLease = posts + `
SELECT r.delivery_id, format('attempt id %s started at %s, while attempt id %s of %s was open and leased', s.attempt_id, y.started_at, r.attempt_id, x.started_at)` + overlaps + `
WHERE r.status <> 0 AND y.started_at < x.started_at + CAST($2 AS double precision) * interval '1 second'`

// Nothing is POSTed by an attempt that started after not_after.
const postAfterDeadline = posts + `
SELECT s.delivery_id, format('attempt id %s was POSTed, it started at %s, after %s', s.attempt_id, x.started_at, e.not_after)
FROM seen s
JOIN envelopes e ON e.delivery_id = s.delivery_id
JOIN entries x ON x.id = e.id AND CAST(x.attempt_id AS text) = s.attempt_id
WHERE x.started_at > e.not_after`

// The status of an attempt is what the receiver answered to its POST.
const answerDiffers = posts + `
SELECT s.delivery_id, format('attempt id %s has status %s, the receiver answered %s', s.attempt_id, x.status,
    CASE s.status WHEN 0 THEN 'nothing' ELSE CAST(s.status AS text) END)
FROM seen s
JOIN envelopes e ON e.delivery_id = s.delivery_id
JOIN entries x ON x.id = e.id AND CAST(x.attempt_id AS text) = s.attempt_id
WHERE x.status <> s.status`

// An attempt with a status was POSTed to a receiver.
const answerWithoutPost = posts + `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s has status %s, no receiver saw its POST', x.attempt, x.generation, x.status)
FROM entries x
LEFT JOIN envelopes e ON e.id = x.id
WHERE x.status IS NOT NULL AND NOT EXISTS (SELECT FROM seen s WHERE s.attempt_id = CAST(x.attempt_id AS text))`
