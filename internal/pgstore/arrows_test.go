package pgstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lib/pq"

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
		"scheduled leased": true, "scheduled scheduled": true, "scheduled cancelled": true, "scheduled delivered": true, // by a late success
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

// A delivery begins scheduled, with nothing used.
func TestADeliveryBeginsScheduled(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	const insert = `INSERT INTO whctl.deliveries (id, destination_id, `
	for _, refused := range []string{
		`state, finished_at, class) VALUES (1, 1, 1, now(), 1)`,
		`state, finished_at, reason) VALUES (1, 1, 2, now(), 1)`,
		`state, finished_at, reason) VALUES (1, 1, 3, now(), 8)`,
		`state, finished_at, reason) VALUES (1, 1, 4, now(), 9)`,
		`next_attempt_at, attempts) VALUES (1, 1, now(), 1)`,
		`next_attempt_at, generation) VALUES (1, 1, now(), 2)`,
		`next_attempt_at, started_at, attempts, attempt_id, lease_owner, lease_expires_at) VALUES (1, 1, now(), now(), 1, gen_random_uuid(), 'a#1', now())`,
		`next_attempt_at, started_at, attempts, attempt_id, lease_owner, lease_expires_at) VALUES (1, 1, now(), now(), 0, gen_random_uuid(), 'a#1', now())`,
	} {
		if _, err := d.Admin.ExecContext(t.Context(), insert+refused); pq.As(err, "23514") == nil {
			t.Errorf("%s: %v", refused, err)
		}
	}
	testbed.Exec(t, d, insert+`next_attempt_at) VALUES (1, 1, now())`)
}

// What a delivery without a lease may become depends on what was attempted.
func TestTheArrowsFromScheduledByCounts(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	attempted := []string{becomes["leased"], becomes["scheduled"]}
	redriven := []string{becomes["leased"], becomes["dead"], becomes["scheduled"] + `, generation = 2, attempts = 0`}
	for _, c := range []struct {
		name            string
		way             []string
		delivered, dead bool
	}{
		{"nothing attempted", nil, false, false},
		{"attempted", attempted, true, false}, // a late success
		{"given back", []string{becomes["leased"], becomes["scheduled"] + `, attempts = 0`}, false, false},
		{"redriven", redriven, true, true}, // a late success of the generation before; called off
		{"redriven and attempted", append(slices.Clone(redriven), attempted...), true, false},
	} {
		for to, want := range map[string]bool{"delivered": c.delivered, "dead": c.dead, "cancelled": true, "leased": true, "discarded": false} {
			id := d.Enqueue(t, "r", c.name+" "+to, `{}`)
			where := fmt.Sprintf(` WHERE id = (SELECT id FROM whctl.envelopes WHERE delivery_id = '%s')`, id)
			for _, set := range c.way {
				testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+set+where)
			}
			_, err := d.Admin.ExecContext(t.Context(), `UPDATE whctl.deliveries SET `+becomes[to]+where)
			if (err == nil) != want || err != nil && pq.As(err, "23514") == nil {
				t.Errorf("%s, to %s: allowed %v, error %v", c.name, to, want, err)
			}
		}
	}
	id := d.Enqueue(t, "r", "called off with an attempt made up", `{}`)
	where := fmt.Sprintf(` WHERE id = (SELECT id FROM whctl.envelopes WHERE delivery_id = '%s')`, id)
	for _, set := range redriven {
		testbed.Exec(t, d, `UPDATE whctl.deliveries SET `+set+where)
	}
	if _, err := d.Admin.ExecContext(t.Context(), `UPDATE whctl.deliveries SET `+becomes["dead"]+`, attempts = 1`+where); err == nil {
		t.Error("the database took a death of a generation without attempts that counts one")
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

// Success is the common end: it must not pay for the index of the dead.
func TestOnlyADeathWritesTheIndexOfTheDead(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	w := newWorker(t, d, "w")
	size := func() int64 {
		return testbed.QueryInt(t, d, `SELECT pg_relation_size('whctl.deliveries_dead_of') / current_setting('block_size')::int`)
	}
	empty := size()
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 'test', 's' || n, '{}') FROM generate_series(1, 100) n`)
	for _, c := range w.claim(100) {
		w.record(delivered(c))
	}
	if got := size(); got != empty {
		t.Errorf("100 successes took the index from %d pages to %d", empty, got)
	}
	d.Enqueue(t, "r", "last", `{}`)
	w.record(dead(w.one()))
	if got := size(); got == empty {
		t.Error("a death is not in the index")
	}
}
