package checker

// Rules about the rows: that they belong together, and that state, times and lease
// agree on each. The schema forbids most of it; a restore or a hand may not have asked it.

// Every envelope has its delivery row.
const noDelivery = `
SELECT e.delivery_id, format('envelope %s has no delivery row', e.id)
FROM envelopes e
WHERE NOT EXISTS (SELECT FROM deliveries d WHERE d.id = e.id)`

// Every delivery row has its envelope.
const noEnvelope = `
SELECT '', format('delivery row %s has no envelope', d.id)
FROM deliveries d
WHERE NOT EXISTS (SELECT FROM envelopes e WHERE e.id = d.id)`

// Every attempt belongs to a delivery row.
const orphanAttempt = `
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s belongs to row %s, which is no delivery', a.attempt, a.generation, a.delivery_id)
FROM attempts a
LEFT JOIN envelopes e ON e.id = a.delivery_id
WHERE NOT EXISTS (SELECT FROM deliveries d WHERE d.id = a.delivery_id)`

// What may still have to be sent has a destination.
const noDestination = `
SELECT coalesce(e.delivery_id, ''), format('row %s in state %s names destination %s, which does not exist', d.id, d.state, d.destination_id)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state IN (0, 2) AND NOT EXISTS (SELECT FROM destinations x WHERE x.id = d.destination_id)`

// A delivery id names one delivery.
const deliveryIDTwice = `
SELECT e.delivery_id, format('%s envelopes have this delivery id', count(*))
FROM envelopes e
GROUP BY e.delivery_id
HAVING count(*) > 1`

// A logical key names one delivery.
const logicalKeyTwice = `
SELECT min(e.delivery_id), format('%s envelopes have the logical key of this one', count(*))
FROM envelopes e
GROUP BY e.tenant, e.subject, e.event_type, e.event_version, e.destination
HAVING count(*) > 1`

// States, classes and reasons are documented ones.
const unknownNumber = `
SELECT coalesce(e.delivery_id, ''), format('state %s, class %s, reason %s: not all are documented', d.state, coalesce(d.class, 0), coalesce(d.reason, 0))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state NOT BETWEEN 0 AND 4 OR d.class NOT BETWEEN 1 AND 16 OR d.reason NOT BETWEEN 1 AND 9
UNION ALL
SELECT coalesce(e.delivery_id, ''), format('attempt %s of generation %s has class %s, which is not documented', a.attempt, a.generation, a.class)
FROM attempts a
LEFT JOIN envelopes e ON e.id = a.delivery_id
WHERE a.class NOT BETWEEN 1 AND 16`

// What is scheduled or leased has a due time.
const openWithoutDue = `
SELECT coalesce(e.delivery_id, ''), 'is scheduled or leased without a due time'
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 0 AND d.next_attempt_at IS NULL`

// What is scheduled or leased has not ended.
const openButFinished = `
SELECT coalesce(e.delivery_id, ''), format('is scheduled or leased, and ended at %s', d.finished_at)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state = 0 AND d.finished_at IS NOT NULL`

// What has ended says when.
const endWithoutTime = `
SELECT coalesce(e.delivery_id, ''), format('is in state %s without the time at which it ended', d.state)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state <> 0 AND d.finished_at IS NULL`

// Nothing that has ended is due: success is final, and so are the other ends.
const rescheduledAfterEnd = `
SELECT coalesce(e.delivery_id, ''), format('is in state %s and due at %s', d.state, d.next_attempt_at)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state <> 0 AND d.next_attempt_at IS NOT NULL`

// A due time is one that every program can show.
const dueOutOfRange = `
SELECT coalesce(e.delivery_id, ''), format('is due at %s', d.next_attempt_at)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.next_attempt_at < '0001-01-01 00:00:00+00' OR d.next_attempt_at >= '10000-01-01 00:00:00+00'`

// A lease has a holder, an end and an attempt, or none of them, and the attempt a start.
const leaseIncomplete = `
SELECT coalesce(e.delivery_id, ''), format('has %s of the parts of a lease: holder, end, attempt, its start',
    num_nonnulls(d.lease_owner, d.lease_expires_at, d.attempt_id, d.started_at))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE num_nonnulls(d.lease_owner, d.lease_expires_at, d.attempt_id) NOT IN (0, 3)
   OR d.attempt_id IS NOT NULL AND d.started_at IS NULL`

// Nothing that has ended is leased.
const leaseAfterEnd = `
SELECT coalesce(e.delivery_id, ''), format('is in state %s and still leased', d.state)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.state <> 0 AND num_nonnulls(d.lease_owner, d.lease_expires_at, d.attempt_id) > 0`

// A lease is a started attempt, and that is charged.
const leaseUncharged = `
SELECT coalesce(e.delivery_id, ''), format('is leased with %s attempts charged', d.attempts)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.attempt_id IS NOT NULL AND d.attempts < 1`

// A lease ends after it began.
const leaseTimes = `
SELECT coalesce(e.delivery_id, ''), format('its attempt started at %s under a lease that ended at %s', d.started_at, d.lease_expires_at)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.attempt_id IS NOT NULL AND d.lease_expires_at <= d.started_at`

// Generations count from 1, attempts from 0.
const counts = `
SELECT coalesce(e.delivery_id, ''), format('generation %s with %s attempts', d.generation, d.attempts)
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE d.generation < 1 OR d.attempts < 0`

// A reason stands on what is dead, cancelled or discarded, and is one that leads there.
const reasonState = `
SELECT coalesce(e.delivery_id, ''), format('is in state %s with reason %s', d.state, coalesce(d.reason, 0))
FROM deliveries d
LEFT JOIN envelopes e ON e.id = d.id
WHERE NOT CASE d.state
    WHEN 2 THEN coalesce(d.reason, 0) IN (1, 2, 3, 4, 5)
    WHEN 3 THEN coalesce(d.reason, 0) IN (6, 7, 8)
    WHEN 4 THEN coalesce(d.reason, 0) IN (1, 2, 3, 4, 5, 9)
    ELSE d.reason IS NULL END`
