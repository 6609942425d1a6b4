package pgstore_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/testbed"
)

// traps are things of a caller's own, of the names that the functions use: tables in the
// schema that every role may write to, and what is never looked for there (functions and
// operators) in one that the caller owns. search_path puts them before all others.
var traps = []string{
	`CREATE TEMP TABLE destinations (x text)`,
	`CREATE TEMP TABLE envelopes (x text)`,
	`CREATE TEMP TABLE deliveries (x text)`,
	`CREATE TEMP TABLE audit_log (x text)`,
	`CREATE FUNCTION bait.note() RETURNS void LANGUAGE sql AS 'INSERT INTO pg_temp.caught VALUES (current_user)'`,
	`CREATE FUNCTION bait.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT bait.note(); SELECT $1'`,
	`CREATE FUNCTION bait.encode(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT bait.note(); SELECT $2'`,
	`CREATE FUNCTION bait.octet_length(bytea) RETURNS int LANGUAGE sql AS 'SELECT bait.note(); SELECT 1'`,
	`CREATE FUNCTION bait.btrim(text) RETURNS text LANGUAGE sql AS 'SELECT bait.note(); SELECT $1'`,
	`CREATE FUNCTION bait.convert_from(bytea, name) RETURNS text LANGUAGE sql AS 'SELECT bait.note(); SELECT ''{}'''`,
	`CREATE FUNCTION bait.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT bait.note(); SELECT $1'`,
	`CREATE FUNCTION bait.new_delivery_id() RETURNS text LANGUAGE sql AS 'SELECT bait.note(); SELECT ''forged'''`,
	`CREATE FUNCTION bait.is_json(bytea) RETURNS boolean LANGUAGE sql AS 'SELECT bait.note(); SELECT true'`,
	`CREATE FUNCTION bait.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT bait.note(); SELECT true'`,
	`CREATE OPERATOR bait.= (LEFTARG = text, RIGHTARG = text, FUNCTION = bait.same)`,
	`CREATE FUNCTION bait.more(int, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT bait.note(); SELECT false'`,
	`CREATE OPERATOR bait.> (LEFTARG = int, RIGHTARG = bigint, FUNCTION = bait.more)`,
	`SET search_path = bait, pg_temp, pg_catalog, whctl`,
}

// trapped is a session of a role that may only call the functions, with the traps laid.
func trapped(t *testing.T, d *testbed.Database) *sqlx.DB {
	t.Helper()
	role, url := d.Login(t, "whctl_producer")
	testbed.Exec(t, d, `CREATE SCHEMA bait AUTHORIZATION `+role)
	db := login(t, url)
	if _, err := db.ExecContext(t.Context(), `CREATE TEMP TABLE caught (who text); GRANT INSERT ON caught TO PUBLIC; GRANT USAGE ON SCHEMA bait TO PUBLIC`); err != nil {
		t.Fatal(err)
	}
	for _, trap := range traps {
		if _, err := db.ExecContext(t.Context(), trap); err != nil {
			t.Fatalf("%s: %v", trap, err)
		}
	}
	return db
}

// callFunctions enqueues, again, to a destination that is not there, and cancels, and tells who
// walked into a trap.
func callFunctions(t *testing.T, db *sqlx.DB) (caught string, err error) {
	t.Helper()
	for _, statement := range []string{
		`SELECT whctl.enqueue('r', 'e', 's', '{}', delivery_id => 'one')`,
		`SELECT whctl.enqueue('r', 'e', 's', '{}')`,
		`SELECT whctl.enqueue('r', 'e', 's2', '{}')`,
		`SELECT whctl.cancel('one', 'why')`,
	} {
		if _, failed := db.ExecContext(t.Context(), statement); failed != nil && err == nil {
			err = failed
		}
	}
	if e := db.GetContext(t.Context(), &caught, `SELECT coalesce(string_agg(DISTINCT who, ' '), '') FROM pg_temp.caught`); e != nil {
		t.Fatal(e)
	}
	return caught, err
}

// The functions act with their owner's rights; what a caller puts in their way must not.
func TestTheFunctionsAreNotFooledByTheCallersNames(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url, body) VALUES ('r', 'https://r.example/', 'envelope')`)
	db := trapped(t, d)
	if caught, err := callFunctions(t, db); caught != "" || err != nil {
		t.Errorf("%q ran what the caller had made; %v", caught, err)
	}
	if _, err := db.ExecContext(t.Context(), `SELECT whctl.enqueue('nowhere', 'e', 's', '{}')`); err == nil {
		t.Error("a destination that is not there was found")
	}
	if _, err := db.ExecContext(t.Context(), `SELECT whctl.enqueue('r', 'e', 's3', 'no json')`); err == nil {
		t.Error("what is not JSON was taken for it")
	}
	if got := testbed.QueryString(t, d, `
SELECT string_agg(s.subject || ' ' || s.state, ', ' ORDER BY s.subject) FROM whctl.delivery_status s WHERE length(s.event_version) = 64`); got != "s cancelled, s2 scheduled" {
		t.Errorf("in the table: %s", got)
	}
	testbed.Check(t, d)
}

// The traps are real: a function that looks where its caller looks walks into them.
func TestTheTrapsCatchAFunctionThatTrustsItsCaller(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url, body) VALUES ('r', 'https://r.example/', 'envelope')`)
	for _, f := range []string{`whctl.enqueue`, `whctl.cancel`, `whctl.is_json`, `whctl.new_delivery_id`} {
		testbed.Exec(t, d, `ALTER FUNCTION `+f+` RESET search_path`)
	}
	// Either the owner runs what the caller has made, or it makes the function fail.
	if caught, err := callFunctions(t, trapped(t, d)); caught != "app" && err == nil {
		t.Errorf("%q ran what the caller had made, want app", caught)
	}
}
