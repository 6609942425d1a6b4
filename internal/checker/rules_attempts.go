package checker

// Rules about attempts: that each is accounted for once, in order, within its bounds.

// (delivery, generation, number) names one attempt.
const attemptNumberTwice = entries + `
SELECT coalesce(e.delivery_id, ''), format('generation %s has %s attempts of number %s', x.generation, count(*), x.attempt)
FROM entries x
LEFT JOIN envelopes e ON e.id = x.id
GROUP BY e.delivery_id, x.id, x.generation, x.attempt
HAVING count(*) > 1`

// The attempts of a generation are numbered 1 to n without gaps.
const attemptNumberGap = entries + `
SELECT coalesce(e.delivery_id, ''), format('generation %s has %s attempts, numbered %s to %s',
    x.generation, count(DISTINCT x.attempt), min(x.attempt), max(x.attempt))
FROM entries x
LEFT JOIN envelopes e ON e.id = x.id
GROUP BY e.delivery_id, x.id, x.generation
HAVING min(x.attempt) <> 1 OR max(x.attempt) <> count(DISTINCT x.attempt)`

// No attempt belongs to a generation that has not begun.
const attemptGeneration = `
SELECT coalesce(e.delivery_id, ''), format('attempt %s belongs to generation %s, the delivery is in generation %s', a.attempt, a.generation, d.generation)
FROM attempts a
JOIN deliveries d ON d.id = a.delivery_id
LEFT JOIN envelopes e ON e.id = d.id
WHERE a.generation > d.generation`

// The count on the row is that of its generation's attempts, the open one included.
const attemptsCount = entries + `
SELECT coalesce(e.delivery_id, ''), format('the row counts %s attempts in generation %s, there are %s', d.attempts, d.generation, count(x.id))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
LEFT JOIN entries x ON x.id = d.id AND x.generation = d.generation
GROUP BY e.delivery_id, d.id, d.attempts, d.generation
HAVING d.attempts <> count(x.id)`

// An attempt id names one attempt of one delivery.
const attemptIDTwice = entries + `
SELECT coalesce(min(e.delivery_id), ''), format('attempt id %s stands on %s attempts', x.attempt_id, count(*))
FROM entries x
LEFT JOIN envelopes e ON e.id = x.id
GROUP BY x.attempt_id
HAVING count(*) > 1`

// A later attempt starts later.
const attemptOrder = entries + `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s started at %s, the one before it at %s', x.attempt, x.generation, x.started_at, x.before)
FROM (SELECT y.*, lag(y.started_at) OVER (PARTITION BY y.id ORDER BY y.generation, y.attempt) AS before FROM entries y) x
LEFT JOIN envelopes e ON e.id = x.id
WHERE x.started_at < x.before`

// An attempt ends after it began. A lost one that another transaction closed while this
// one's claim was being committed may seem to end a moment before.
const attemptTimes = `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s started at %s and ended at %s', a.attempt, a.generation, a.started_at, a.finished_at)
FROM attempts a
LEFT JOIN envelopes e ON e.id = a.delivery_id
WHERE a.finished_at < a.started_at AND a.class <> 16`

// No attempt starts after its delivery has ended. A late success closes another worker's
// attempt as lost in its own transaction, whose time may be a moment before that start.
const attemptAfterEnd = entries + `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s started at %s, the delivery ended at %s', x.attempt, x.generation, x.started_at, d.finished_at)
FROM entries x
JOIN deliveries d ON d.id = x.id
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state <> 0 AND x.started_at > d.finished_at
  AND (x.class IS DISTINCT FROM 16 OR x.finished_at IS DISTINCT FROM d.finished_at)`

// No attempt starts after not_after. A claim that finds it passed cancels instead; one
// that was lost in between (16) sent nothing, which the receiver's log must confirm.
const attemptAfterDeadline = `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s started at %s, after %s', a.attempt, a.generation, a.started_at, e.not_after)
FROM attempts a
JOIN envelopes e ON e.id = a.delivery_id
WHERE a.started_at > e.not_after AND a.class <> 16`

// Class and status of an attempt agree (RFC 9110, section 15); what got no answer has none.
const classStatus = `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s has class %s with status %s', a.attempt, a.generation, a.class, coalesce(a.status::text, 'none'))
FROM attempts a
LEFT JOIN envelopes e ON e.id = a.delivery_id
WHERE NOT CASE a.class
    WHEN 1 THEN coalesce(a.status, 0) BETWEEN 200 AND 299
    WHEN 7 THEN a.status IS NULL OR a.status NOT BETWEEN 200 AND 599
    WHEN 11 THEN coalesce(a.status, 0) BETWEEN 300 AND 399
    WHEN 12 THEN coalesce(a.status, 0) IN (401, 403)
    WHEN 13 THEN coalesce(a.status, 0) = 429
    WHEN 14 THEN coalesce(a.status, 0) BETWEEN 400 AND 499 AND a.status NOT IN (401, 403, 408, 425, 429)
    WHEN 15 THEN coalesce(a.status, 0) IN (408, 425) OR coalesce(a.status, 0) BETWEEN 500 AND 599
    ELSE a.status IS NULL END`

// Class and status of the row come from one of its attempts. One that was lost may have
// become its true result since.
const classWithoutAttempt = `
SELECT coalesce(e.delivery_id, ''), format('has class %s with status %s, none of its attempts has', d.class, coalesce(d.status::text, 'none'))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.class IS NOT NULL
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.delivery_id = d.id
                  AND (d.class = 16 OR a.class = d.class AND a.status IS NOT DISTINCT FROM d.status))`

// What time does not mend is not tried again in the same generation. A result that came
// late ended after the next attempt had started, and is not on the row.
const retriedFinal = entries + `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s ended with class %s, and was tried again', x.attempt, x.generation, x.class)
FROM entries x
LEFT JOIN envelopes e ON e.id = x.id
WHERE x.class IN (8, 10, 11, 12, 14)
  AND (EXISTS (SELECT FROM entries y WHERE y.id = x.id AND y.generation = x.generation AND y.attempt > x.attempt
               AND y.started_at >= x.finished_at)
       OR EXISTS (SELECT FROM deliveries d WHERE d.id = x.id AND d.state = 0 AND d.attempt_id IS NULL
                  AND d.generation = x.generation AND d.attempts = x.attempt AND d.class = x.class))`

// No generation has more attempts than its budget, and none is exhausted or lost before.
// A redrive that was cancelled before its first attempt died in the generation before.
const overBudget = entries + `
SELECT coalesce(e.delivery_id, ''), format('generation %s has attempt %s of %s', x.generation, x.attempt, CAST($1 AS integer))
FROM entries x
LEFT JOIN envelopes e ON e.id = x.id
WHERE x.attempt > CAST($1 AS integer)
UNION ALL
SELECT coalesce(e.delivery_id, ''), format('is dead with its budget spent after %s attempts of %s', d.attempts, CAST($1 AS integer))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND d.reason IN (2, 3) AND d.attempts < CAST($1 AS integer)
  AND NOT (d.attempts = 0 AND d.generation > 1)`
