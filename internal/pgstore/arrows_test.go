package pgstore_test

import (
	"fmt"
	"testing"

	"example.com/whctl/internal/testbed"
)

// The assignments that put a row into a state, as far as the row's own columns go.
var becomes = map[string]string{
	"scheduled": `state = 0, next_attempt_at = now(), finished_at = NULL, reason = NULL, attempt_id = NULL, lease_owner = NULL, lease_expires_at = NULL`,
	"leased":    `state = 0, next_attempt_at = now(), finished_at = NULL, reason = NULL, attempt_id = gen_random_uuid(), lease_owner = 'a#1', lease_expires_at = now(), started_at = now(), attempts = attempts + 1`,
	"delivered": `state = 1, next_attempt_at = NULL, finished_at = now(), reason = NULL, class = 1, attempt_id = NULL, lease_owner = NULL, lease_expires_at = NULL`,
	"dead":      `state = 2, next_attempt_at = NULL, finished_at = now(), reason = 1, class = 13, attempt_id = NULL, lease_owner = NULL, lease_expires_at = NULL`,
	"cancelled": `state = 3, next_attempt_at = NULL, finished_at = now(), reason = 8, attempts = greatest(attempts - 1, 0), attempt_id = NULL, lease_owner = NULL, lease_expires_at = NULL`,
	"discarded": `state = 4, next_attempt_at = NULL, finished_at = now(), reason = 9, attempt_id = NULL, lease_owner = NULL, lease_expires_at = NULL`,
}

// Only the arrows of the model exist; the database itself refuses every other.
func TestOnlyTheArrowsOfTheModel(t *testing.T) {
	allowed := map[string]bool{
		"scheduled leased": true, "scheduled scheduled": true, "scheduled cancelled": true, "scheduled delivered": true, "scheduled dead": true,
		"leased leased": true, "leased scheduled": true, "leased delivered": true, "leased dead": true, "leased cancelled": true,
		"dead dead": true, "dead delivered": true, "dead discarded": true,
		"delivered delivered": true, "cancelled cancelled": true, "discarded discarded": true,
	}
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	for from := range becomes {
		for to, set := range becomes {
			id := d.Enqueue(t, "r", from+" "+to, `{}`)
			where := fmt.Sprintf(` WHERE id = (SELECT id FROM whctl.envelopes WHERE delivery_id = '%s')`, id)
			testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes["leased"]+where)
			if from != "leased" {
				if from == "discarded" {
					testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes["dead"]+where)
				}
				testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes[from]+where)
			}
			_, err := d.Admin.ExecContext(t.Context(), `UPDATE whctl.deliveries SET `+set+where)
			if arrow := from + " " + to; (err == nil) != allowed[arrow] {
				t.Errorf("%s: allowed %v, error %v", arrow, allowed[arrow], err)
			}
		}
	}
}

// A redrive is the one way back from the dead: a new generation, with nothing used.
func TestBackFromTheDeadIsANewGeneration(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	d.Enqueue(t, "r", "s", `{}`)
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes["leased"])
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes["dead"])
	for _, refused := range []string{"generation = 2", "generation = 3, attempts = 0", "attempts = 0"} {
		if _, err := d.Admin.ExecContext(t.Context(), `UPDATE whctl.deliveries SET `+becomes["scheduled"]+`, `+refused); err == nil {
			t.Errorf("the database took a redrive with %s", refused)
		}
	}
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes["scheduled"]+`, generation = 2, attempts = 0`)
}

func TestWhatNeverChanges(t *testing.T) {
	d, id, a, b := fixture(t)
	first := a.one()
	expire(t, d)
	b.record(lost(b.one()))
	for _, change := range []string{
		`UPDATE whctl.envelopes SET payload = 'x'`,
		`UPDATE whctl.envelopes SET delivery_id = 'x'`,
		`UPDATE whctl.envelopes SET event_at = now()`,
		`UPDATE whctl.envelopes SET subject = 'x'`,
		`UPDATE whctl.deliveries SET id = id + 1`,
		`UPDATE whctl.deliveries SET generation = 2`,
		`UPDATE whctl.attempts SET class = 16`,
		`UPDATE whctl.attempts SET attempt_id = gen_random_uuid(), class = 15`,
		`UPDATE whctl.attempts SET attempt = 2, class = 15`,
		`UPDATE whctl.attempts SET worker = 'x', class = 15`,
	} {
		if _, err := d.Admin.ExecContext(t.Context(), change); err == nil {
			t.Errorf("the database took: %s", change)
		}
	}
	a.record(delivered(first)) // a lost attempt becomes its true result, once
	for _, change := range []string{
		`UPDATE whctl.attempts SET class = 15, status = 503`,
		`UPDATE whctl.attempts SET message = 'x'`,
		`UPDATE whctl.deliveries SET ` + becomes["scheduled"],
	} {
		if _, err := d.Admin.ExecContext(t.Context(), change); err == nil {
			t.Errorf("the database took: %s", change)
		}
	}
	if got := testbed.QueryInt(t, d, `SELECT whctl.cancel($1, 'late')::int`, id); got != 0 {
		t.Error("a delivered delivery was cancelled")
	}
	if got := state(t, d, id); got != "delivered" {
		t.Errorf("state %s: success is final", got)
	}
}

func TestADestinationThatIsNeededStays(t *testing.T) {
	d, _, a, _ := fixture(t)
	remove := func() error {
		_, err := d.Admin.ExecContext(t.Context(), `DELETE FROM whctl.destinations`)
		return err
	}
	if remove() == nil {
		t.Error("removed while a delivery is scheduled")
	}
	a.record(dead(a.one()))
	if remove() == nil {
		t.Error("removed while a delivery is dead: it may still be redriven")
	}
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+becomes["discarded"])
	if err := remove(); err != nil {
		t.Errorf("not removed though nothing needs it: %v", err)
	}
}
