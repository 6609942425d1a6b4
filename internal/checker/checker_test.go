package checker_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lib/pq"

	"example.com/whctl/internal/checker"
	"example.com/whctl/internal/testbed"
)

func TestALawfulWorldHasNoViolations(t *testing.T) {
	t.Parallel()
	db, seen := world(t)
	for name, given := range map[string][]checker.Seen{"with the log": seen, "tables alone": nil} {
		options := worldOptions
		if given == nil {
			options = nil
		}
		found, err := checker.Check(t.Context(), db.Admin.DB, "whctl", given, options...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range found {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestCheckOfAnotherSchema(t *testing.T) {
	t.Parallel()
	db, _ := world(t)
	testbed.Exec(t, db, `ALTER SCHEMA whctl RENAME TO "Other one"`)
	testbed.Exec(t, db, `UPDATE "Other one".deliveries SET class = 2 WHERE id = 2`)
	found, err := checker.Check(t.Context(), db.Admin.DB, "Other one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Kind != "class_without_attempt" || found[0].DeliveryID != deliveryID(2) {
		t.Errorf("found %v", found)
	}
	if _, err := checker.Check(t.Context(), db.Admin.DB, "whctl", nil); err == nil {
		t.Error("a missing schema has no violations")
	}
}

func TestWithoutLeavesRulesOut(t *testing.T) {
	t.Parallel()
	db, _ := world(t)
	testbed.Exec(t, db, `UPDATE whctl.deliveries SET class = 2 WHERE id = 2`)
	found, err := checker.Check(t.Context(), db.Admin.DB, "whctl", nil, checker.Without("class_without_attempt"))
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := checker.Check(t.Context(), db.Admin.DB, "whctl", nil, checker.Without("typo")); err == nil {
		t.Error("an unknown kind is taken")
	}
}

// disarm takes away what the schema itself refuses, and keeps a copy of the world.
const disarm = `
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT x.conrelid::regclass AS rel, x.conname FROM pg_constraint x
             WHERE x.connamespace = 'whctl'::regnamespace AND x.contype IN ('c', 'u', 'p') AND x.conrelid <> 0 LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.rel, c.conname);
    END LOOP;
END $$;
CREATE SCHEMA saved;
CREATE TABLE saved.envelopes AS TABLE whctl.envelopes;
CREATE TABLE saved.deliveries AS TABLE whctl.deliveries;
CREATE TABLE saved.attempts AS TABLE whctl.attempts;
CREATE TABLE saved.audit_log AS TABLE whctl.audit_log`

// restore makes the world what it was, without asking triggers, and goes on with a plant.
const restore = `
BEGIN;
SET LOCAL session_replication_role = replica;
DELETE FROM whctl.envelopes;
DELETE FROM whctl.deliveries;
DELETE FROM whctl.attempts;
DELETE FROM whctl.audit_log;
INSERT INTO whctl.envelopes SELECT * FROM saved.envelopes;
INSERT INTO whctl.deliveries SELECT * FROM saved.deliveries;
INSERT INTO whctl.attempts SELECT * FROM saved.attempts;
INSERT INTO whctl.audit_log SELECT * FROM saved.audit_log;
`

// Each rule sees what breaks it, and names nothing else than what is broken.
func TestEachRuleNamesWhatBreaksIt(t *testing.T) {
	t.Parallel()
	db, unchanged := world(t)
	testbed.Exec(t, db, disarm)
	var planted []string
	for _, p := range plants() {
		planted = append(planted, p.kinds...)
		t.Run(p.kinds[0]+"/"+p.name, func(t *testing.T) {
			testbed.Exec(t, db, restore+p.sql+"; COMMIT")
			seen := slices.Clone(unchanged)
			if p.log != nil {
				seen = p.log(seen)
			}
			found, err := checker.Check(t.Context(), db.Admin.DB, "whctl", seen, worldOptions...)
			if err != nil {
				t.Fatal(err)
			}
			p.judge(t, found)
		})
	}
	for _, kind := range checker.Kinds() {
		if !slices.Contains(planted, kind) {
			t.Errorf("nothing is planted for %s", kind)
		}
	}
}

func (p plant) judge(t *testing.T, found []checker.Violation) {
	t.Helper()
	var kinds []string
	for _, v := range found {
		if v.DeliveryID != p.delivery {
			t.Errorf("names another delivery: %v", v)
		}
		kinds = append(kinds, v.Kind)
	}
	slices.Sort(kinds)
	if want := slices.Sorted(slices.Values(p.kinds)); !slices.Equal(slices.Compact(kinds), want) {
		t.Errorf("found %v, want the kinds %v", found, want)
	}
}

// Every class with every kind of status, against what RFC 9110 and the documentation say.
func TestClassAndStatus(t *testing.T) {
	t.Parallel()
	db := testbed.DB(t)
	db.Destination(t, "receiver", "https://receiver.test/")
	testbed.Exec(t, db, `ALTER TABLE whctl.attempts DROP CONSTRAINT attempts_ok, DROP CONSTRAINT attempts_lost`)
	fits := map[int][]int64{ // 0 is no status
		1: {200, 299}, 2: {0}, 3: {0}, 4: {0}, 5: {0}, 6: {0}, 7: {0, 99, 100, 199, 600, 999}, 8: {0}, 9: {0}, 10: {0},
		11: {300, 399}, 12: {401, 403}, 13: {429}, 14: {400, 402, 404, 407, 409, 424, 426, 428, 430, 499}, 15: {408, 425, 500, 599}, 16: {0},
	}
	var all []int64
	for _, statuses := range fits {
		all = append(all, statuses...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, status := range all {
		testbed.Exec(t, db, `SELECT whctl.enqueue('receiver', 'test.happened', $1::text, '{}', delivery_id => $1::text)`, statusID(status))
	}
	for class := 1; class <= 16; class++ {
		testbed.Exec(t, db, `DELETE FROM whctl.attempts`)
		testbed.Exec(t, db, `
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, generation, attempt, class, status, worker)
SELECT e.id, gen_random_uuid(), now(), 1, 1, $1, nullif(s.status, 0), 'w'
FROM unnest($2::bigint[]) AS s(status) JOIN whctl.envelopes e ON e.delivery_id = 'status-' || s.status`, class, pq.Array(all))
		found, err := checker.Check(t.Context(), db.Admin.DB, "whctl", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range all {
			named := slices.ContainsFunc(found, func(v checker.Violation) bool {
				return v.Kind == "class_status" && v.DeliveryID == statusID(status)
			})
			if named == slices.Contains(fits[class], status) {
				t.Errorf("class %d with status %d: named %v", class, status, named)
			}
		}
	}
}

func statusID(status int64) string { return "status-" + strconv.FormatInt(status, 10) }

// The log is read to the nanosecond; the tables' microseconds would round an overlap away,
// or one into being.
func TestOverlapIsJudgedToTheNanosecond(t *testing.T) {
	t.Parallel()
	db, seen := world(t)
	first := slices.IndexFunc(seen, func(s checker.Seen) bool { return s.DeliveryID == deliveryID(4) && s.Attempt == 1 })
	second := slices.IndexFunc(seen, func(s checker.Seen) bool { return s.DeliveryID == deliveryID(4) && s.Attempt == 2 })
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {1, 0}, {-1, 1}} {
		seen[second].Started = seen[first].Finished.Add(c.after)
		found, err := checker.Check(t.Context(), db.Admin.DB, "whctl", seen)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != c.want {
			t.Errorf("%v after the first one's end: %v", c.after, found)
		}
	}
}
