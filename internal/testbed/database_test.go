package testbed_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/testbed"
)

func connect(t *testing.T, url string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	one, two := testbed.DB(t), testbed.DB(t)
	one.Destination(t, "first", "https://example.com/")
	one.Enqueue(t, "first", "s-1", `{}`)
	if n := testbed.QueryInt(t, one, "SELECT count(*) FROM whctl.deliveries"); n != 1 {
		t.Errorf("one has %d deliveries", n)
	}
	if n := testbed.QueryInt(t, two, "SELECT count(*) FROM whctl.deliveries"); n != 0 {
		t.Errorf("two has %d deliveries", n)
	}
	testbed.Check(t, one)
}

func TestEmptyDBHasNoSchema(t *testing.T) {
	t.Parallel()
	db := testbed.EmptyDB(t)
	if got := testbed.QueryString(t, db, "SELECT to_regnamespace('whctl')::text"); got != "" {
		t.Errorf("there is a schema %s", got)
	}
}

func TestTheAppOwnsItsDatabaseAndIsNoSuperuser(t *testing.T) {
	t.Parallel()
	db := testbed.DB(t)
	db.Set(t, "statement_timeout", "1234ms")
	var who struct {
		Name    string `db:"name"`
		Super   bool   `db:"super"`
		Owner   bool   `db:"owner"`
		Timeout string `db:"timeout"`
	}
	err := connect(t, db.URL).GetContext(t.Context(), &who, `
SELECT current_user AS name, r.rolsuper AS super, pg_catalog.pg_get_userbyid(c.relowner) = current_user AS owner,
       current_setting('statement_timeout') AS timeout
FROM pg_catalog.pg_roles r, pg_catalog.pg_class c
WHERE r.rolname = current_user AND c.oid = 'whctl.deliveries'::regclass`)
	if err != nil {
		t.Fatal(err)
	}
	if who.Name != "app" || who.Super || !who.Owner || who.Timeout != "1234ms" {
		t.Errorf("%+v", who)
	}
}

func TestLoginHasItsGroupsRightsOnly(t *testing.T) {
	t.Parallel()
	db := testbed.DB(t)
	_, url := db.Login(t, "whctl_reader")
	reader := connect(t, url)
	if _, err := reader.ExecContext(t.Context(), "SELECT FROM whctl.deliveries"); err != nil {
		t.Error(err)
	}
	if _, err := reader.ExecContext(t.Context(), "DELETE FROM whctl.deliveries"); err == nil {
		t.Error("a reader may delete")
	}
}
