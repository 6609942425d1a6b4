package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// A DBA runs the printed text; the program then has nothing to do and knows it.
func TestMigrateAfterThePrintedText(t *testing.T) {
	for _, schema := range []string{"whctl", "hooks"} {
		t.Run(schema, func(t *testing.T) {
			d := testbed.EmptyDB(t)
			text, err := pgstore.MigrationSQL(schema)
			if err != nil {
				t.Fatal(err)
			}
			owner, err := sqlx.ConnectContext(t.Context(), "postgres", d.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = owner.Close() }()
			if _, err := owner.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if done, err := s.MigrateUp(t.Context(), true); err != nil || len(done) > 0 {
				t.Fatalf("applied %v, %v", done, err)
			}
			if err := s.CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
			steps, err := s.MigrateStatus(t.Context())
			if err != nil || len(steps) != pgstore.Version || steps[0].AppliedAt.IsZero() {
				t.Errorf("status %+v, %v", steps, err)
			}
			if got := testbed.QueryString(t, d, `SELECT string_agg(version_id || ' ' || is_applied, ', ' ORDER BY id) FROM `+schema+`.migrations`); got != "0 true, 1 true" {
				t.Errorf("on record: %s", got)
			}
		})
	}
}

// The printed text and the program make the same: what one of them leaves out would be
// missed only where the other was used.
func TestThePrintedTextMakesTheSameTables(t *testing.T) {
	byText, byProgram := testbed.EmptyDB(t), testbed.EmptyDB(t)
	text, err := pgstore.MigrationSQL("")
	if err != nil {
		t.Fatal(err)
	}
	testbed.Exec(t, byText, text)
	if _, err := open(t, byProgram).MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	shape := func(d *testbed.Database) string {
		return testbed.QueryString(t, d, `
SELECT string_agg(concat_ws(' ', c.relname, a.attnum, a.attname, a.atttypid::regtype, a.attnotnull, a.attidentity), E'\n' ORDER BY c.relname, a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relnamespace = 'whctl'::regnamespace`)
	}
	if a, b := shape(byText), shape(byProgram); a != b || !strings.Contains(a, "migrations 2 version_id bigint") {
		t.Errorf("by the text:\n%s\nby the program:\n%s", a, b)
	}
}

// holdMigration keeps every migration of d waiting, until it is let go.
func holdMigration(t *testing.T, d *testbed.Database) (let func()) {
	t.Helper()
	tx, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('whctl migrate whctl', 0))`); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// A migration may take longer than any other wait for the server.
func TestMigrateWaitsLongerThanAnyStatement(t *testing.T) {
	d := testbed.EmptyDB(t)
	const limit = 300 * time.Millisecond
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, IOTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	let := holdMigration(t, d)
	ended := make(chan error, 1)
	go func() {
		_, err := s.MigrateUp(t.Context(), false)
		ended <- err
	}()
	awaitLockWaiter(t, d)
	for begun := time.Now(); time.Since(begun) < 3*limit; {
		awaitLockWaiter(t, d)
		select {
		case err := <-ended:
			t.Fatalf("ended while another migrates: %v", err)
		default:
		}
	}
	let()
	if err := testbed.Await(t, "the migration", ended); err != nil {
		t.Error(err)
	}
}

// One that waits ends when it is told to, and says by what.
func TestMigrateThatWaitsEndsWithItsContext(t *testing.T) {
	d := testbed.EmptyDB(t)
	s := open(t, d)
	holdMigration(t, d)
	why := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		_, err := s.MigrateUp(ctx, false)
		ended <- err
	}()
	awaitLockWaiter(t, d)
	cancel(why)
	if err := testbed.Await(t, "the migration", ended); !errors.Is(err, why) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestEveryGroupReadsTheStatus(t *testing.T) {
	d := testbed.DB(t)
	for _, group := range []string{"whctl_producer", "whctl_worker", "whctl_operator", "whctl_reader"} {
		_, url := d.Login(t, group)
		steps, err := openURL(t, url).MigrateStatus(t.Context())
		if err != nil || len(steps) != pgstore.Version || steps[0].AppliedAt.IsZero() {
			t.Errorf("%s: %+v, %v", group, steps, err)
		}
	}
}

// Many at once go through a temporary table, which not every database lets everybody make.
func TestRolesMayMakeTemporaryTables(t *testing.T) {
	d := testbed.EmptyDB(t)
	testbed.Exec(t, d, `REVOKE TEMPORARY ON DATABASE `+d.Name+` FROM PUBLIC`)
	if _, err := open(t, d).MigrateUp(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]error{"whctl_worker": nil, "whctl_operator": nil, "whctl_reader": work.ErrGrant} {
		_, url := d.Login(t, group)
		p := newProducer(t, d, url)
		if _, err := p.store.Enqueue(t.Context(), p.filled(copied)); !errors.Is(err, want) {
			t.Errorf("%s: %v", group, err)
		}
	}
}
