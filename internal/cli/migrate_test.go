package cli

import (
	"database/sql"
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestMigrateRefusesSchemasThatAreNotItsOwn(t *testing.T) {
	d := testbed.EmptyDB(t)
	for _, schema := range []string{"public", "pg_catalog", "information_schema", "user", "Hooks"} {
		for _, command := range []string{"up", "status", "sql"} {
			got := run(t, d, exitConfig, "migrate", command, "--schema", schema)
			has(t, got.err, `"`+schema+`"`)
		}
	}
}

// By hand first, then by the program.
func TestMigrateUpAfterMigrateSQL(t *testing.T) {
	d := testbed.EmptyDB(t)
	owner, err := sql.Open("postgres", d.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close() }()
	if _, err := owner.ExecContext(t.Context(), run(t, nil, 0, "migrate", "sql").out); err != nil {
		t.Fatal(err)
	}
	has(t, run(t, d, 0, "migrate", "up", "--roles").out, "up to date (version 1)")
	has(t, run(t, d, 0, "migrate", "status").out, "00001_work_table.sql")
}

// A migration that waits for another one ends when it is told to.
func TestMigrateThatWaitsEndsBySignal(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		d := testbed.EmptyDB(t)
		tx, err := d.Admin.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('whctl migrate whctl', 0))`); err != nil {
			t.Fatal(err)
		}
		p := testbed.Start(t, testbed.Cmd{Args: []string{"migrate", "up"}, Env: []string{"WHCTL_DATABASE_URL=" + d.URL}})
		for testbed.QueryInt(t, d, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
			if t.Context().Err() != nil {
				t.Fatal("nobody waits")
			}
		}
		p.Signal(signal)
		if got := p.Wait(); got.Code != code {
			t.Errorf("%s: exit %d, want %d\n%s", signal, got.Code, code, got.Stderr)
		}
	}
}
