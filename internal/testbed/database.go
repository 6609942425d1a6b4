package testbed

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/checker"
	"example.com/whctl/internal/localpg"
)

// Database is a database of one test.
type Database struct {
	Name     string
	URL      string   // as role app, the owner of the database; what whctl is given
	AdminURL string   // as superuser
	Admin    *sqlx.DB // as superuser
}

// DB is a fresh, migrated database, with the group roles and their grants. It is
// dropped when the test ends.
func DB(t testing.TB) *Database {
	t.Helper()
	return bench.newDatabase(t, " TEMPLATE "+template)
}

// EmptyDB is a fresh database without the schema.
func EmptyDB(t testing.TB) *Database {
	t.Helper()
	return bench.newDatabase(t, "")
}

// AloneDB is DB on a server of its own, which the test may halt and resume.
func AloneDB(t testing.TB) (*Database, *localpg.Server) {
	t.Helper()
	own := &shared{dir: bench.dir}
	t.Cleanup(func() {
		if err := own.closeServer(); err != nil {
			t.Error(err)
		}
	})
	return own.newDatabase(t, " TEMPLATE "+template), own.server
}

func (b *shared) newDatabase(t testing.TB, how string) *Database {
	t.Helper()
	server := b.postgres(t)
	d := &Database{Name: bench.names.next("test_")}
	b.templateMu.Lock()
	_, err := b.admin.ExecContext(t.Context(), "CREATE DATABASE "+d.Name+" OWNER "+appRole+how)
	b.templateMu.Unlock()
	if err != nil {
		t.Fatalf("create database %s: %v", d.Name, err)
	}
	t.Cleanup(func() {
		// FORCE ends the sessions of programs that the test killed or cut off.
		if _, err := b.admin.Exec("DROP DATABASE " + d.Name + " WITH (FORCE)"); err != nil { //nolint:noctx // the test's context has ended
			t.Errorf("drop database %s: %v", d.Name, err)
		}
	})
	d.AdminURL = server.URL(d.Name)
	if d.URL, err = asRole(d.AdminURL, appRole); err != nil {
		t.Fatal(err)
	}
	if d.Admin, err = sqlx.ConnectContext(t.Context(), "postgres", d.AdminURL); err != nil {
		t.Fatalf("connect to %s: %v", d.Name, err)
	}
	t.Cleanup(func() { _ = d.Admin.Close() })
	return d
}

// Login makes a role that only this test has, a member of the groups (such as
// whctl_worker), and returns its name and the database's URL for it. Settings that hold
// for a role in all databases belong on one of these, never on app.
func (d *Database) Login(t testing.TB, groups ...string) (role, url string) {
	t.Helper()
	role = bench.names.next("login_")
	d.statement(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		for _, s := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := d.Admin.Exec(s); err != nil { //nolint:noctx // the test's context has ended
				t.Errorf("%s: %v", s, err)
			}
		}
	})
	for _, g := range groups {
		d.statement(t, "GRANT "+pq.QuoteIdentifier(g)+" TO "+role)
	}
	url, err := asRole(d.URL, role)
	if err != nil {
		t.Fatal(err)
	}
	return role, url
}

// Set gives role app a setting that holds in this database only.
func (d *Database) Set(t testing.TB, name, value string) {
	t.Helper()
	d.statement(t, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = %s", appRole, d.Name, pq.QuoteIdentifier(name), pq.QuoteLiteral(value)))
}

func (d *Database) statement(t testing.TB, text string) {
	t.Helper()
	if _, err := d.Admin.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// Destination puts a destination in by hand, all else defaulted.
func (d *Database) Destination(t testing.TB, name, url string) {
	t.Helper()
	Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ($1, $2)`, name, url)
}

// Enqueue puts one delivery in, due at once, and returns its id.
func (d *Database) Enqueue(t testing.TB, destination, subject, payload string) string {
	t.Helper()
	var id, result string
	err := d.Admin.QueryRowxContext(t.Context(),
		`SELECT delivery_id, result FROM whctl.enqueue($1, 'test.happened', $2, $3)`, destination, subject, []byte(payload)).Scan(&id, &result)
	if err != nil || result != "enqueued" {
		t.Fatalf("enqueue %s: %s, %v", subject, result, err)
	}
	return id
}

// Exec runs a statement as superuser and returns how many rows it touched.
func Exec(t testing.TB, d *Database, query string, args ...any) int64 {
	t.Helper()
	res, err := d.Admin.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Plant is Exec without triggers: for rows in states that no delivery begins in.
func Plant(t testing.TB, d *Database, query string, args ...any) {
	t.Helper()
	tx, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// QueryInt is the one number that a query answers with.
func QueryInt(t testing.TB, d *Database, query string, args ...any) int64 {
	t.Helper()
	var n int64
	if err := d.Admin.GetContext(t.Context(), &n, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// QueryString is the one text that a query answers with, "" for NULL.
func QueryString(t testing.TB, d *Database, query string, args ...any) string {
	t.Helper()
	var s sql.NullString
	if err := d.Admin.GetContext(t.Context(), &s, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s.String
}

// Check fails the test with each invariant that the database, together with the
// receivers' logs, breaks.
func Check(t testing.TB, d *Database, receivers ...*Endpoint) {
	t.Helper()
	CheckWith(t, d, nil, receivers...)
}

// CheckWith is Check with options of the checker.
func CheckWith(t testing.TB, d *Database, options []checker.Option, receivers ...*Endpoint) {
	t.Helper()
	var seen []checker.Seen
	for _, r := range receivers {
		seen = append(seen, r.Seen()...)
	}
	found, err := checker.Check(t.Context(), d.Admin.DB, "whctl", seen, options...)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// asRole is a database URL for a role that needs no password.
func asRole(database, role string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", fmt.Errorf("database URL: %w", err)
	}
	u.User = url.User(role)
	return u.String(), nil
}
