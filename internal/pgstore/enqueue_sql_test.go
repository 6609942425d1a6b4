package pgstore_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/testbed"
)

// enqueueSQL calls whctl.enqueue with these arguments and answers "result id", or the
// SQLSTATE and message of its error.
func enqueueSQL(t *testing.T, q sqlx.QueryerContext, args string) string {
	t.Helper()
	var id, result sql.NullString
	err := q.QueryRowxContext(t.Context(), `SELECT delivery_id, result FROM whctl.enqueue(`+args+`)`).Scan(&id, &result)
	if server := pq.As(err); server != nil {
		return string(server.Code) + " " + server.Message
	}
	if err != nil {
		t.Fatal(err)
	}
	return result.String + " " + id.String
}

func TestTheFunctionEnqueue(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url, body, payload_max) VALUES
		('by-hand', 'https://r.example/', NULL, NULL), ('env', 'https://r.example/', 'envelope', 20), ('raw', 'https://r.example/', 'raw', 300000)`)
	hash := "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	for _, c := range []struct{ args, want string }{
		{`'by-hand', 't', 's', '{}', delivery_id => 'one'`, "enqueued one"},
		{`'by-hand', 't', 's', '{}', delivery_id => 'two'`, "duplicate one"},
		{`'by-hand', 't', 's', '{}', event_version => '` + hash + `'`, "duplicate one"}, // the version is the hash
		{`'by-hand', 't', 's', '{}', tenant => ''`, "duplicate one"},
		{`'by-hand', 't', 's', '{}', tenant => NULL, event_id => NULL, event_at => NULL`, "duplicate one"},
		{`'by-hand', 't', 's', '[]', event_version => '` + hash + `'`, "conflict one"},
		{`'by-hand', 't', 's2', '{}', delivery_id => 'one'`, "conflict one"}, // the id is taken
		{`'by-hand', 't', NULL, '{}', delivery_id => 'null subject'`, "22023 whctl.enqueue: delivery_id: want 1 to 128 of A-Z a-z 0-9 . _ : -"},
		{`'by-hand', 't', NULL, '{}', delivery_id => 'three'`, "enqueued three"},
		{`'by-hand', 't', '', '{}'`, "duplicate three"},
		{`'by-hand', 't', 's', '{}', tenant => 'acme', delivery_id => 'four'`, "enqueued four"}, // each part of the key counts
		{`'by-hand', 't2', 's', '{}', delivery_id => 'five'`, "enqueued five"},
		{`'raw', 't', 's', '{}', delivery_id => 'six'`, "enqueued six"},
		{`'by-hand', 't', 's', '{}', event_version => '2', delivery_id => 'seven'`, "enqueued seven"},
		{`'by-hand', 't', 's3', '\x00ff', delivery_id => 'eight'`, "enqueued eight"}, // whose body nobody has fixed
		{`'raw', 't', 's3', '\x00ff', delivery_id => 'nine'`, "enqueued nine"},
		{`'raw', 't', 's4', '', delivery_id => 'ten'`, "enqueued ten"},
		{`'env', 't', 's3', '\x00ff'`, "22032 whctl.enqueue: the payload is not JSON, and the body of destination env is an envelope"},
		{`'env', 't', 's3', ''`, "22032 whctl.enqueue: the payload is not JSON, and the body of destination env is an envelope"},
		{`'env', 't', 's3', '{"a":'`, "22032 whctl.enqueue: the payload is not JSON, and the body of destination env is an envelope"},
		{`'env', 't', 's3', convert_to('"é"', 'LATIN1')`, "22032 whctl.enqueue: the payload is not JSON, and the body of destination env is an envelope"},
		{`'env', 't', 's3', convert_to('{"a":1.0, "a":2}' || chr(10), 'UTF8'), delivery_id => 'eleven'`, "enqueued eleven"},
		{`'env', 't', 's5', convert_to(repeat('1', 20), 'UTF8'), delivery_id => 'twelve'`, "enqueued twelve"},
		{`'env', 't', 's6', convert_to(repeat('1', 21), 'UTF8')`, "22023 whctl.enqueue: payload of 21 bytes is larger than the 20 bytes allowed"},
		{`'by-hand', 't', 's6', convert_to(repeat('1', 262145), 'UTF8')`, "22023 whctl.enqueue: payload of 262145 bytes is larger than the 262144 bytes allowed"},
		{`'raw', 't', 's6', convert_to(repeat('1', 262145), 'UTF8'), delivery_id => 'thirteen'`, "enqueued thirteen"},
		{`'by-hand', 't', 's', NULL`, "22004 whctl.enqueue: payload is null"},
		{`'nowhere', 't', 's', '{}'`, "23503 whctl.enqueue: unknown destination 'nowhere'"},
		{`NULL, 't', 's', '{}'`, "23503 whctl.enqueue: unknown destination NULL"},
		{`'by-hand', NULL, 's', '{}'`, "22023 whctl.enqueue: event_type: want 1 to 256 bytes"},
		{`'by-hand', '', 's', '{}'`, "22023 whctl.enqueue: event_type: want 1 to 256 bytes"},
		{`'by-hand', 't', repeat('x', 1025), '{}'`, "22023 whctl.enqueue: want at most 256 bytes of tenant, 1024 of subject, 512 of event_id"},
		{`'by-hand', 't', 's', '{}', event_version => ''`, "22023 whctl.enqueue: event_version: want 1 to 256 bytes"},
		{`'by-hand', 't', 's9', '{}', delivery_id => ''`, "22023 whctl.enqueue: delivery_id: want 1 to 128 of A-Z a-z 0-9 . _ : -"},
		{`'by-hand', 't', 's9', '{}', delivery_id => repeat('x', 129)`, "22023 whctl.enqueue: delivery_id: want 1 to 128 of A-Z a-z 0-9 . _ : -"},
		{`'by-hand', 't', 's9', '{}', delivery_id => E'a\n'`, "22023 whctl.enqueue: delivery_id: want 1 to 128 of A-Z a-z 0-9 . _ : -"},
		{`'by-hand', 't', 's9', '{}', not_after => '2020-01-01Z'`, "22023 whctl.enqueue: not_after 2020-01-01 00:00:00+00 is before it is due"},
		{`'by-hand', 't', 's9', '{}', not_after => now() + interval '1 hour', not_before => now() + interval '2 hours'`, "22023 whctl.enqueue: not_after "},
	} {
		if got := enqueueSQL(t, d.Admin, c.args); got != c.want && !(strings.HasPrefix(c.want, "22023") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, c.want)
		}
	}
	id := strings.TrimPrefix(enqueueSQL(t, d.Admin, `'by-hand', 't', 'own', '{}'`), "enqueued ")
	if len(id) != 36 || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("delivery id %q, want a UUID of version 7", id)
	}
	testbed.Check(t, d)
}

// H44: what a year of five digits or infinity would break later is refused at once.
func TestTheFunctionEnqueueAtTheEdgeOfTime(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	for _, at := range []string{"infinity", "-infinity", "10000-01-01Z", "294276-12-31Z", "0001-12-31 BC", "4713-01-01 BC"} {
		for _, arg := range []string{"event_at", "not_before", "not_after"} {
			got := enqueueSQL(t, d.Admin, fmt.Sprintf(`'r', 't', 's', '{}', %s => '%s'`, arg, at))
			if !strings.HasPrefix(got, "22008 whctl.enqueue: event_at, not_before and not_after: want years 1 to 9999") {
				t.Errorf("%s %s: %s", arg, at, got)
			}
		}
	}
	for i, at := range []string{"0001-01-01Z", "9999-12-31T23:59:59.999999Z"} {
		for _, arg := range []string{"event_at", "not_before"} {
			if got := enqueueSQL(t, d.Admin, fmt.Sprintf(`'r', 't', 's%d%s', '{}', %s => '%s'`, i, arg, arg, at)); !strings.HasPrefix(got, "enqueued") {
				t.Errorf("%s %s: %s", arg, at, got)
			}
		}
	}
	testbed.Check(t, d)
}

// The producer's own transaction decides: rolled back, nothing was ever there.
func TestTheFunctionEnqueueInATransaction(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	_, url := d.Login(t, "whctl_producer")
	producer, err := sqlx.ConnectContext(t.Context(), "postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	for _, end := range []struct {
		do   func(*sqlx.Tx) error
		rows int64
	}{{(*sqlx.Tx).Rollback, 0}, {(*sqlx.Tx).Commit, 1}} {
		tx, err := producer.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := enqueueSQL(t, tx, `'r', 't', 's', '{}', delivery_id => 'one'`); got != "enqueued one" {
			t.Errorf("in the transaction: %s", got)
		}
		if got := enqueueSQL(t, tx, `'r', 't', 's', '{}', delivery_id => 'two'`); got != "duplicate one" {
			t.Errorf("again in the transaction: %s", got)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); n != 0 {
			t.Errorf("others see %d rows before the end", n)
		}
		if err := end.do(tx); err != nil {
			t.Fatal(err)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); n != end.rows {
			t.Errorf("%d rows at the end, want %d", n, end.rows)
		}
	}
	// The function is all that the role may touch.
	for _, query := range []string{`SELECT * FROM whctl.envelopes`, `SELECT * FROM whctl.destinations`, `INSERT INTO whctl.deliveries (id, destination_id) VALUES (1, 1)`, `SELECT whctl.is_json('')`} {
		if _, err := producer.ExecContext(t.Context(), query); pq.As(err, "42501") == nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	// Nor can it slip objects of its own under the function.
	if _, err := producer.ExecContext(t.Context(), `CREATE TEMPORARY TABLE destinations (name text)`); err != nil {
		t.Fatal(err)
	}
	if got := enqueueSQL(t, producer, `'r', 't', 's', '{}'`); got != "duplicate one" {
		t.Errorf("with a table in the way: %s", got)
	}
	testbed.Check(t, d)
}

// Two producers with one event: the second waits for the first's end.
func TestTheFunctionEnqueueWaitsForAnother(t *testing.T) {
	for commit, want := range map[bool]string{true: "duplicate one", false: "enqueued two"} {
		d := testbed.DB(t)
		d.Destination(t, "r", "https://r.example/")
		tx, err := d.Admin.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if got := enqueueSQL(t, tx, `'r', 't', 's', '{}', delivery_id => 'one'`); got != "enqueued one" {
			t.Fatal(got)
		}
		done := make(chan string, 1)
		go func() { done <- enqueueSQL(t, d.Admin, `'r', 't', 's', '{}', delivery_id => 'two'`) }()
		awaitLockWaiter(t, d)
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if got := testbed.Await(t, "the second", done); got != want {
			t.Errorf("commit %v: %s, want %s", commit, got, want)
		}
	}
}
