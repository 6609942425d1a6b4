package checker

// rule is one invariant. Its statement answers with delivery id and message of what
// breaks it; args gives the statement's arguments, and false where the rule can't be
// judged by what is known.
type rule struct {
	kind string
	sql  string
	args func(inputs) ([]any, bool)
}

func rules() []rule {
	return []rule{
		{"no_delivery", noDelivery, always},
		{"no_envelope", noEnvelope, always},
		{"orphan_attempt", orphanAttempt, always},
		{"no_destination", noDestination, always},
		{"delivery_id_twice", deliveryIDTwice, always},
		{"logical_key_twice", logicalKeyTwice, always},

		{"unknown_number", unknownNumber, always},
		{"open_without_due", openWithoutDue, always},
		{"open_but_finished", openButFinished, always},
		{"end_without_time", endWithoutTime, always},
		{"rescheduled_after_end", rescheduledAfterEnd, always},
		{"due_out_of_range", dueOutOfRange, always},
		{"lease_incomplete", leaseIncomplete, always},
		{"lease_after_end", leaseAfterEnd, always},
		{"lease_uncharged", leaseUncharged, always},
		{"lease_times", leaseTimes, always},
		{"counts", counts, always},
		{"reason_state", reasonState, always},

		{"attempt_number_twice", attemptNumberTwice, always},
		{"attempt_number_gap", attemptNumberGap, always},
		{"attempt_generation", attemptGeneration, always},
		{"attempts_count", attemptsCount, always},
		{"attempt_id_twice", attemptIDTwice, always},
		{"attempt_order", attemptOrder, always},
		{"attempt_times", attemptTimes, always},
		{"attempt_after_end", attemptAfterEnd, always},
		{"attempt_after_deadline", attemptAfterDeadline, always},
		{"class_status", classStatus, always},
		{"class_without_attempt", classWithoutAttempt, always},
		{"retried_final", retriedFinal, always},
		{"over_budget", overBudget, withBudget},

		{"delivered_without_ok", deliveredWithoutOK, always},
		{"delivered_class", deliveredClass, always},
		{"ok_not_delivered", okNotDelivered, always},
		{"dead_without_class", deadWithoutClass, always},
		{"dead_without_attempt", deadWithoutAttempt, always},
		{"dead_by_other", deadByOther, always},
		{"reason_class", reasonClass, always},
		{"permanent_retryable", permanentRetryable, always},
		{"exhausted_final", exhaustedFinal, always},
		{"cancelled_early", cancelledEarly, always},
		{"cancelled_without_audit", cancelledWithoutAudit, always},
		{"discarded_without_audit", discardedWithoutAudit, always},
		{"redrive_audit", redriveAudit, always},

		{"post_without_attempt", postWithoutAttempt, withLog},
		{"post_number", postNumber, withLog},
		{"post_twice", postTwice, withLog},
		{"post_body", postBody, withLog},
		{"post_overlap", postOverlap, withLog},
		{"post_within_lease", postWithinLease, withLease},
		{"post_after_deadline", postAfterDeadline, withLog},
		{"answer_differs", answerDiffers, withLog},
		{"answer_without_post", answerWithoutPost, withCompleteLog},
	}
}

func always(inputs) ([]any, bool) { return nil, true }

func withLog(in inputs) ([]any, bool) { return []any{in.seen}, in.any }

func withCompleteLog(in inputs) ([]any, bool) { return []any{in.seen}, in.complete }

func withLease(in inputs) ([]any, bool) {
	return []any{in.seen, in.lease.Seconds()}, in.any && in.lease > 0
}

func withBudget(in inputs) ([]any, bool) { return []any{in.maxAttempts}, in.maxAttempts > 0 }

// entries is every attempt that was ever charged: the closed ones, and the open ones,
// which stand on their delivery's row.
//
// The numbers in all rules are those of the first migration. State: 0 scheduled or
// leased, 1 delivered, 2 dead, 3 cancelled, 4 discarded. Class: 1 ok, 2 timeout, 3 dns,
// 4 connect, 5 tls, 6 reset, 7 protocol, 8 blocked, 9 blocked_name, 10 invalid,
// 11 redirect, 12 unauthorized, 13 rate_limited, 14 rejected, 15 unavailable, 16 lost.
// Reason: 1 permanent, 2 exhausted, 3 lost, 4 blocked, 5 invalid, 6 not_after, 7 guard,
// 8 cancelled, 9 discarded.
const entries = `
WITH entries AS (
  SELECT a.delivery_id AS id, a.generation, a.attempt, a.attempt_id, a.started_at, a.finished_at, a.class, a.status
  FROM attempts a
  UNION ALL
  SELECT d.id, d.generation, d.attempts, d.attempt_id, d.started_at, NULL, NULL, NULL
  FROM deliveries d
  WHERE d.attempt_id IS NOT NULL)`

// posts is entries with the receivers' log, given as JSON.
const posts = entries + `,
seen AS MATERIALIZED (
  SELECT * FROM json_to_recordset(CAST($1 AS json)) AS t(
    n bigint, delivery_id text, attempt_id text, generation bigint, attempt bigint, body text, status integer,
    started bigint, finished bigint))`
