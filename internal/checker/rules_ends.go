package checker

// Rules about ends: that a delivery ended by what its attempts and the audit log say.

// What is delivered has an attempt that was answered with 2xx.
const deliveredWithoutOK = `
SELECT coalesce(e.delivery_id, ''), 'is delivered without an attempt of class ok'
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 1
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.delivery_id = d.id AND a.class = 1 AND a.status BETWEEN 200 AND 299)`

// What is delivered says so by class and status.
const deliveredClass = `
SELECT coalesce(e.delivery_id, ''), format('is delivered with class %s and status %s', coalesce(d.class::text, 'none'), coalesce(d.status::text, 'none'))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 1 AND NOT (coalesce(d.class, 0) = 1 AND coalesce(d.status, 0) BETWEEN 200 AND 299)`

// A success makes the delivery delivered, unless it was cancelled or discarded before.
const okNotDelivered = `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s was a success, the delivery is in state %s', a.attempt, a.generation, d.state)
FROM attempts a
JOIN deliveries d ON d.id = a.delivery_id
LEFT JOIN envelopes e ON e.id = d.id
WHERE a.class = 1 AND d.state IN (0, 2)`

// A dead letter says what its last attempt ended as.
const deadWithoutClass = `
SELECT coalesce(e.delivery_id, ''), 'is dead without a class'
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND d.class IS NULL`

// Nothing dies untried, also not by a refusal of our own.
const deadWithoutAttempt = `
SELECT coalesce(e.delivery_id, ''), format('is dead of reason %s without an attempt', coalesce(d.reason, 0))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND NOT EXISTS (SELECT FROM attempts a WHERE a.delivery_id = d.id)`

// A dead letter died of its last attempt. One that was lost may have become its true
// result since.
const deadByOther = `
SELECT coalesce(e.delivery_id, ''), format('died of class %s, status %s; its last attempt ended with class %s, status %s',
    d.class, coalesce(d.status, 0), l.class, coalesce(l.status, 0))
FROM deliveries d
JOIN (SELECT DISTINCT ON (a.delivery_id) a.delivery_id, a.class, a.status FROM attempts a
      ORDER BY a.delivery_id, a.generation DESC, a.attempt DESC) l ON l.delivery_id = d.id
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND d.class <> 16 AND (l.class <> d.class OR l.status IS DISTINCT FROM d.status)`

// The reason of a death fits its class.
const reasonClass = `
SELECT coalesce(e.delivery_id, ''), format('died of class %s, status %s for reason %s', d.class, coalesce(d.status, 0), d.reason)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND d.class IS NOT NULL
  AND NOT CASE d.reason
    WHEN 1 THEN d.class IN (11, 12, 13, 14, 15) AND d.status IS NOT NULL
    WHEN 2 THEN d.class NOT IN (1, 8, 10, 16)
    WHEN 3 THEN d.class = 16
    WHEN 4 THEN d.class = 8
    WHEN 5 THEN d.class = 10
    ELSE true END`

// A permanent death is by an answer that time does not mend, as retry_status has it
// by default.
const permanentRetryable = `
SELECT coalesce(e.delivery_id, ''), format('died as permanent of status %s, which is retried', d.status)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND d.reason = 1 AND (d.status IN (408, 425, 429) OR d.status BETWEEN 500 AND 599)`

// Only what is retried exhausts its budget, as retry_status has it by default.
const exhaustedFinal = `
SELECT coalesce(e.delivery_id, ''), format('died as exhausted of status %s, which is not retried', d.status)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 2 AND d.reason = 2 AND d.status BETWEEN 300 AND 499 AND d.status NOT IN (408, 425, 429)`

// What is cancelled because not_after passed had one, and it had passed.
const cancelledEarly = `
SELECT coalesce(e.delivery_id, ''), format('was cancelled at %s because %s had passed', d.finished_at, coalesce(e.not_after::text, 'no not_after'))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 3 AND d.reason = 6 AND (e.not_after IS NULL OR d.finished_at < e.not_after)`

// What a person or the producer cancelled is on record.
const cancelledWithoutAudit = `
SELECT e.delivery_id, 'was cancelled, and no record says by whom'
FROM deliveries d
JOIN envelopes e ON e.id = d.id
WHERE d.state = 3 AND d.reason = 8
  AND NOT EXISTS (SELECT FROM audit_log l WHERE l.delivery_id = e.delivery_id AND l.action = 'cancel')`

// What a person discarded is on record.
const discardedWithoutAudit = `
SELECT e.delivery_id, 'was discarded, and no record says by whom'
FROM deliveries d
JOIN envelopes e ON e.id = d.id
WHERE d.state = 4
  AND NOT EXISTS (SELECT FROM audit_log l WHERE l.delivery_id = e.delivery_id AND l.action = 'discard')`

// Each generation after the first is one redrive on record.
const redriveAudit = `
SELECT e.delivery_id, format('is in generation %s with %s redrives on record', d.generation, count(l.id))
FROM deliveries d
JOIN envelopes e ON e.id = d.id
LEFT JOIN audit_log l ON l.delivery_id = e.delivery_id AND l.action = 'redrive'
GROUP BY e.delivery_id, d.id, d.generation
HAVING count(l.id) <> d.generation - 1`
