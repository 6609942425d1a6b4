package checker_test

import (
	"slices"

	"example.com/whctl/internal/checker"
)

// plant breaks one rule, kinds[0], in the world; the further kinds are what cannot but be
// broken with it. All violations are of the same delivery.
type plant struct {
	name     string
	kinds    []string
	delivery string
	sql      string
	log      func([]checker.Seen) []checker.Seen
}

func plants() []plant { return slices.Concat(rowPlants(), attemptPlants(), endPlants(), postPlants()) }

func only(kind string, id int, name, sql string) plant {
	return plant{name: name, kinds: []string{kind}, delivery: deliveryID(id), sql: sql}
}

func with(p plant, kinds ...string) plant {
	p.kinds = append(p.kinds, kinds...)
	return p
}

func rowPlants() []plant {
	nameless := only("no_envelope", 0, "removed", `DELETE FROM whctl.envelopes WHERE id = 1`)
	nameless.delivery = ""
	return []plant{
		only("no_delivery", 1, "removed", `DELETE FROM whctl.deliveries WHERE id = 1`),
		nameless,
		with(only("orphan_attempt", 13, "delivery removed", `DELETE FROM whctl.deliveries WHERE id = 13`), "no_delivery"),
		only("no_destination", 1, "removed", `UPDATE whctl.deliveries SET destination_id = 99 WHERE id = 1`),
		only("no_destination", 6, "removed", `UPDATE whctl.deliveries SET destination_id = 99 WHERE id = 6`),
		only("delivery_id_twice", 1, "same id", `UPDATE whctl.envelopes SET delivery_id = 'delivery-1' WHERE id = 16`),
		only("logical_key_twice", 1, "same key", `UPDATE whctl.envelopes SET subject = 'delivery-1' WHERE id = 16`),

		with(only("unknown_number", 1, "state", `UPDATE whctl.deliveries SET state = 5 WHERE id = 1`), "end_without_time", "rescheduled_after_end"),
		with(only("unknown_number", 13, "class", `UPDATE whctl.deliveries SET class = 17 WHERE id = 13`), "class_without_attempt", "dead_by_other", "reason_class"),
		with(only("unknown_number", 16, "reason", `UPDATE whctl.deliveries SET reason = 10 WHERE id = 16`), "reason_state"),
		with(only("unknown_number", 13, "class of an attempt", `UPDATE whctl.attempts SET class = 0 WHERE delivery_id = 13`), "class_without_attempt", "dead_by_other"),
		only("open_without_due", 1, "no due time", `UPDATE whctl.deliveries SET next_attempt_at = NULL WHERE id = 1`),
		only("open_but_finished", 1, "ended", `UPDATE whctl.deliveries SET finished_at = now() WHERE id = 1`),
		only("end_without_time", 16, "no end", `UPDATE whctl.deliveries SET finished_at = NULL WHERE id = 16`),
		only("rescheduled_after_end", 4, "delivered", `UPDATE whctl.deliveries SET next_attempt_at = now() WHERE id = 4`),
		only("rescheduled_after_end", 6, "dead", `UPDATE whctl.deliveries SET next_attempt_at = now() WHERE id = 6`),
		only("due_out_of_range", 1, "infinity", `UPDATE whctl.deliveries SET next_attempt_at = 'infinity' WHERE id = 1`),
		only("due_out_of_range", 1, "-infinity", `UPDATE whctl.deliveries SET next_attempt_at = '-infinity' WHERE id = 1`),
		only("due_out_of_range", 1, "year 10000", `UPDATE whctl.deliveries SET next_attempt_at = '10000-01-01 00:00:00+00' WHERE id = 1`),
		only("lease_incomplete", 3, "no holder", `UPDATE whctl.deliveries SET lease_owner = NULL WHERE id = 3`),
		only("lease_incomplete", 3, "no start", `UPDATE whctl.deliveries SET started_at = NULL WHERE id = 3`),
		only("lease_incomplete", 1, "end alone", `UPDATE whctl.deliveries SET lease_expires_at = now() WHERE id = 1`),
		only("lease_after_end", 16, "cancelled", `
			UPDATE whctl.deliveries d SET attempt_id = gen_random_uuid(), lease_owner = 'w', started_at = d.finished_at - interval '1 s',
			    lease_expires_at = d.finished_at, attempts = 1 WHERE id = 16`),
		with(only("lease_uncharged", 3, "no attempts", `UPDATE whctl.deliveries SET attempts = 0 WHERE id = 3`), "attempts_count", "attempt_number_gap", "attempt_order", "post_number"),
		only("lease_times", 3, "ends before its start", `UPDATE whctl.deliveries SET lease_expires_at = started_at WHERE id = 3`),
		with(only("counts", 16, "generation 0", `UPDATE whctl.deliveries SET generation = 0 WHERE id = 16`), "redrive_audit"),
		with(only("counts", 16, "attempts -1", `UPDATE whctl.deliveries SET attempts = -1 WHERE id = 16`), "attempts_count"),
		only("reason_state", 1, "scheduled", `UPDATE whctl.deliveries SET reason = 1 WHERE id = 1`),
		only("reason_state", 4, "delivered", `UPDATE whctl.deliveries SET reason = 1 WHERE id = 4`),
		only("reason_state", 6, "dead without", `UPDATE whctl.deliveries SET reason = NULL WHERE id = 6`),
		only("reason_state", 6, "dead as cancelled", `UPDATE whctl.deliveries SET reason = 8 WHERE id = 6`),
		only("reason_state", 16, "cancelled as exhausted", `UPDATE whctl.deliveries SET reason = 2 WHERE id = 16`),
		only("reason_state", 10, "discarded without", `UPDATE whctl.deliveries SET reason = NULL WHERE id = 10`),
	}
}

// insertTry is an attempt beside one that a delivery has.
const insertTry = `INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, generation, attempt, class, status, worker)
SELECT delivery_id, gen_random_uuid(), started_at, finished_at, `

func attemptPlants() []plant {
	return []plant{
		with(only("attempt_number_twice", 13, "closed twice", insertTry+`1, 1, class, status, worker FROM whctl.attempts WHERE delivery_id = 13`), "attempts_count"),
		with(only("attempt_number_twice", 3, "open and closed", `UPDATE whctl.attempts SET attempt = 2, started_at = '2026-01-02 03:06:06+00' WHERE delivery_id = 3`), "attempt_number_gap", "post_number"),
		only("attempt_number_gap", 13, "begins at 2", `UPDATE whctl.attempts SET attempt = 2 WHERE delivery_id = 13`),
		with(only("attempt_number_gap", 4, "1 and 3", `UPDATE whctl.attempts SET attempt = 3 WHERE delivery_id = 4 AND attempt = 2`), "post_number", "over_budget"),
		with(only("attempt_generation", 13, "ahead", `UPDATE whctl.attempts SET generation = 2 WHERE delivery_id = 13`), "attempts_count"),
		only("attempts_count", 4, "one more", `UPDATE whctl.deliveries SET attempts = 3 WHERE id = 4`),
		only("attempts_count", 1, "none there", `UPDATE whctl.deliveries SET attempts = 1 WHERE id = 1`),
		only("attempt_id_twice", 13, "in two deliveries", `
			UPDATE whctl.attempts SET attempt_id = (SELECT attempt_id FROM whctl.attempts WHERE delivery_id = 14) WHERE delivery_id = 13`),
		only("attempt_order", 5, "the second first", `
			UPDATE whctl.attempts SET started_at = started_at - interval '100 s' WHERE delivery_id = 5 AND attempt = 2`),
		only("attempt_times", 13, "ends before its start", `UPDATE whctl.attempts SET finished_at = started_at - interval '1 s' WHERE delivery_id = 13`),
		only("attempt_after_end", 4, "delivered before", `UPDATE whctl.deliveries SET finished_at = finished_at - interval '2 s' WHERE id = 4`),
		only("attempt_after_end", 7, "lost later", `
			UPDATE whctl.attempts SET started_at = '2026-02-02 00:00:00+00', finished_at = '2026-02-02 00:00:01+00' WHERE delivery_id = 7 AND attempt = 2`),
		only("attempt_after_deadline", 13, "sent too late", `
			UPDATE whctl.envelopes SET not_after = '2026-01-02 03:04:05+00' WHERE id = 13`),
		with(only("class_status", 6, "rejected with 503", `UPDATE whctl.attempts SET status = 503 WHERE delivery_id = 6`), "class_without_attempt", "dead_by_other", "answer_differs"),
		with(only("class_status", 5, "timeout with a status", `UPDATE whctl.attempts SET status = 100 WHERE delivery_id = 5 AND attempt = 1`), "answer_differs"),
		with(only("class_status", 7, "lost with a status", `UPDATE whctl.attempts SET status = 999 WHERE delivery_id = 7 AND attempt = 2`), "answer_without_post"),
		only("class_without_attempt", 2, "another class", `UPDATE whctl.deliveries SET class = 2, status = NULL WHERE id = 2`),
		only("class_without_attempt", 1, "never tried", `UPDATE whctl.deliveries SET class = 16 WHERE id = 1`),
		only("retried_final", 5, "after blocked", `UPDATE whctl.attempts SET class = 8 WHERE delivery_id = 5 AND attempt = 1`),
		with(only("retried_final", 2, "404 is scheduled", `
			UPDATE whctl.attempts SET class = 14, status = 404 WHERE delivery_id = 2; UPDATE whctl.deliveries SET class = 14, status = 404 WHERE id = 2`), "answer_differs"),
		only("over_budget", 5, "a third", insertTry+`1, 3, class, status, worker FROM whctl.attempts WHERE delivery_id = 5 AND attempt = 2;
			UPDATE whctl.deliveries SET attempts = 3 WHERE id = 5`),
		with(only("over_budget", 5, "dead before", `
			DELETE FROM whctl.attempts WHERE delivery_id = 5 AND attempt = 2; UPDATE whctl.deliveries SET attempts = 1 WHERE id = 5`), "post_without_attempt"),
	}
}

func endPlants() []plant {
	return []plant{
		with(only("delivered_without_ok", 4, "never sent", `UPDATE whctl.attempts SET class = 15, status = 500 WHERE delivery_id = 4 AND class = 1`), "class_without_attempt", "answer_differs"),
		only("delivered_class", 4, "another class", `UPDATE whctl.deliveries SET class = 15, status = 503 WHERE id = 4`),
		only("ok_not_delivered", 2, "scheduled again", `
			UPDATE whctl.deliveries SET state = 0, class = 15, status = 503, next_attempt_at = now(), finished_at = NULL WHERE id = 4`).of(4),
		with(only("ok_not_delivered", 6, "dead", `UPDATE whctl.attempts SET class = 1, status = 200 WHERE delivery_id = 6`), "class_without_attempt", "dead_by_other", "answer_differs"),
		only("dead_without_class", 6, "no class", `UPDATE whctl.deliveries SET class = NULL, status = NULL WHERE id = 6`),
		with(only("dead_without_attempt", 13, "untried", `DELETE FROM whctl.attempts WHERE delivery_id = 13; UPDATE whctl.deliveries SET attempts = 0 WHERE id = 13`), "class_without_attempt"),
		only("dead_by_other", 7, "the attempt before", `UPDATE whctl.deliveries SET class = 7, status = 999, reason = 2 WHERE id = 7`),
		with(only("reason_class", 13, "blocked as exhausted", `UPDATE whctl.deliveries SET reason = 2 WHERE id = 13`), "over_budget"),
		only("reason_class", 5, "timeout as permanent", `UPDATE whctl.deliveries SET reason = 1 WHERE id = 5`),
		only("reason_class", 5, "timeout as lost", `UPDATE whctl.deliveries SET reason = 3 WHERE id = 5`),
		only("reason_class", 6, "404 as blocked", `UPDATE whctl.deliveries SET reason = 4 WHERE id = 6`),
		only("reason_class", 6, "404 as invalid", `UPDATE whctl.deliveries SET reason = 5 WHERE id = 6`),
		only("permanent_retryable", 15, "429", `UPDATE whctl.deliveries SET reason = 1 WHERE id = 15`),
		with(only("exhausted_final", 6, "404", `UPDATE whctl.deliveries SET reason = 2 WHERE id = 6`), "over_budget"),
		only("cancelled_early", 9, "before not_after", `UPDATE whctl.envelopes SET not_after = now() + interval '1 h' WHERE id = 9`),
		only("cancelled_early", 9, "no not_after", `UPDATE whctl.envelopes SET not_after = NULL WHERE id = 9`),
		only("cancelled_without_audit", 8, "no record", `DELETE FROM whctl.audit_log WHERE action = 'cancel'`),
		only("discarded_without_audit", 10, "no record", `DELETE FROM whctl.audit_log WHERE action = 'discard'`),
		only("redrive_audit", 11, "no record", `DELETE FROM whctl.audit_log WHERE action = 'redrive' AND delivery_id = 'delivery-11'`),
		only("redrive_audit", 6, "no redrive", `INSERT INTO whctl.audit_log (operator, action, reason, delivery_id) VALUES ('op', 'redrive', 'r', 'delivery-6')`),
	}
}

// of is p on another delivery than it says.
func (p plant) of(id int) plant {
	p.delivery = deliveryID(id)
	return p
}
