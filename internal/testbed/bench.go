package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver of all databases here

	"example.com/whctl/internal/localpg"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/migrations"
)

const (
	// appRole is who whctl logs in as: no superuser, but the owner of its databases.
	appRole  = "app"
	template = "whctl_template"
)

// bench is what all tests of one test binary share. It is the one package-level
// variable here: a test has no other way to what its TestMain made.
var bench shared

type shared struct {
	dir string // temporary, removed by Main; "" before

	serverOnce sync.Once
	server     *localpg.Server
	admin      *sqlx.DB // on the database postgres
	serverErr  error

	templateMu sync.Mutex // CREATE DATABASE refuses a template in use
	names      counter

	binaryOnce sync.Once
	binary     string
	binaryErr  error

	authorityOnce sync.Once
	authority     *authority
	authorityErr  error
}

// Main runs the tests of a binary and ends what they shared:
//
//	func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }
//
// The Postgres starts with the first database that a test asks for.
func Main(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "whctl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		return 1
	}
	bench.dir = dir
	// The program and the authority's file are also used by other accounts.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		return 1
	}
	defer func() {
		if err := bench.close(); err != nil {
			fmt.Fprintln(os.Stderr, "testbed:", err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}

func (b *shared) close() error {
	return errors.Join(b.closeServer(), os.RemoveAll(b.dir))
}

func (b *shared) closeServer() error {
	var err error
	if b.admin != nil {
		err = b.admin.Close()
	}
	if b.server != nil {
		err = errors.Join(err, b.server.Stop())
	}
	return err
}

// postgres is the shared server, started by the first who asks.
func (b *shared) postgres(t testing.TB) *localpg.Server {
	t.Helper()
	if b.dir == "" {
		t.Fatal("testbed: this test binary needs: func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }")
	}
	b.serverOnce.Do(func() { b.serverErr = b.start() })
	if b.serverErr != nil {
		t.Fatalf("testbed: %v", b.serverErr)
	}
	return b.server
}

func (b *shared) start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if b.server, err = localpg.Start(ctx, localpg.Options{}); err != nil {
		return err
	}
	if b.admin, err = sqlx.ConnectContext(ctx, "postgres", b.server.URL("postgres")); err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE ROLE " + appRole + " LOGIN",
		"CREATE DATABASE " + template + " OWNER " + appRole,
	} {
		if _, err := b.admin.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return b.migrateTemplate(ctx)
}

// migrateTemplate lets the product make its schema as the role that owns it, and the
// superuser make the group roles.
func (b *shared) migrateTemplate(ctx context.Context) (err error) {
	url, err := asRole(b.server.URL(template), appRole)
	if err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, pgstore.Options{URL: url})
	if err != nil {
		return err
	}
	_, err = store.MigrateUp(ctx, false)
	if err = errors.Join(err, store.Close()); err != nil {
		return fmt.Errorf("migrate the template: %w", err)
	}
	db, err := sqlx.ConnectContext(ctx, "postgres", b.server.URL(template))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, migrations.Roles)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("make the group roles: %w", err)
	}
	return nil
}

// counter gives names that no other test of the binary has.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return prefix + strconv.Itoa(c.n)
}
