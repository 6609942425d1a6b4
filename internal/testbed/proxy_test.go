package testbed_test

import (
	"context"
	"testing"

	"github.com/lib/pq"

	"example.com/whctl/internal/testbed"
)

const countSQL = "SELECT count(*) FROM t"

func table(t *testing.T) *testbed.Database {
	t.Helper()
	db := testbed.EmptyDB(t)
	testbed.Exec(t, db, "CREATE TABLE t (n integer)")
	testbed.Exec(t, db, "GRANT ALL ON t TO PUBLIC")
	return db
}

// The server commits, the client is told nothing.
func TestCutAfterAnswerLetsTheServerCommit(t *testing.T) {
	t.Parallel()
	db := table(t)
	link := testbed.Proxy(t, db.URL)
	app := connect(t, link.URL(db.URL))
	tx, err := app.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES ($1)", 1); err != nil {
		t.Fatal(err)
	}
	cut := link.CutAfterAnswer(testbed.Says("COMMIT"))
	if err := tx.Commit(); err == nil {
		t.Error("the client was told of the commit")
	}
	testbed.Await(t, "the cut", cut.Done)
	if n := testbed.QueryInt(t, db, countSQL); n != 1 {
		t.Errorf("%d rows", n)
	}
	// Only that connection was cut, and only once.
	if _, err := app.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
		t.Error(err)
	}
}

// It is known of the driver: a statement outside a transaction runs again by itself when
// its answer is lost. Were it not so, this bench would show less than it is for.
func TestCutAfterAnswerShowsAStatementThatRunsTwice(t *testing.T) {
	t.Parallel()
	db := table(t)
	link := testbed.Proxy(t, db.URL)
	app := connect(t, link.URL(db.URL))
	cut := link.CutAfterAnswer(testbed.Says("INSERT"))
	if _, err := app.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Error(err)
	}
	testbed.Await(t, "the cut", cut.Done)
	if n := testbed.QueryInt(t, db, countSQL); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestCutBeforeKeepsTheRequestFromTheServer(t *testing.T) {
	t.Parallel()
	db := table(t)
	link := testbed.Proxy(t, db.URL)
	app := connect(t, link.URL(db.URL))
	tx, err := app.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	cut := link.CutBefore(testbed.Says("COMMIT"))
	if err := tx.Commit(); err == nil {
		t.Error("committed")
	}
	testbed.Await(t, "the cut", cut.Done)
	if n := testbed.QueryInt(t, db, countSQL); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestHoldIsSilence(t *testing.T) {
	t.Parallel()
	db := table(t)
	link := testbed.Proxy(t, db.URL)
	app := connect(t, link.URL(db.URL))
	link.Hold()
	answered := make(chan error, 1)
	go func() {
		_, err := app.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO t VALUES (1)")
		answered <- err
	}()
	// Nothing came through: another session sees no statement of the app's, and the
	// connection is still there.
	n := testbed.QueryInt(t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'INSERT%'")
	if n != 0 || link.Open() != 1 {
		t.Errorf("%d statements, %d connections", n, link.Open())
	}
	select {
	case err := <-answered:
		t.Errorf("answered: %v", err)
	default:
	}
	link.Release()
	if err := testbed.Await(t, "the answer", answered); err != nil {
		t.Error(err)
	}
	if n := testbed.QueryInt(t, db, countSQL); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestDropBreaksWhatIsOpen(t *testing.T) {
	t.Parallel()
	db := table(t)
	link := testbed.Proxy(t, db.URL)
	app := connect(t, link.URL(db.URL))
	tx, err := app.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	link.Drop()
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err == nil {
		t.Error("the link still works")
	}
	_ = tx.Rollback() // the link is gone
	if _, err := app.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	link.Refuse()
	if err := app.PingContext(t.Context()); err == nil {
		t.Error("a refused connection works")
	}
	link.Pass()
	if err := app.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// A cancelled statement is cancelled through the proxy, too, and libpq's question for
// TLS is answered with no.
func TestProxySpeaksTheRestOfTheProtocol(t *testing.T) {
	t.Parallel()
	db := table(t)
	link := testbed.Proxy(t, db.URL)
	app := connect(t, link.URL(db.URL))
	ctx, cancel := context.WithCancel(t.Context())
	testbed.Exec(t, db, "BEGIN; LOCK TABLE t; COMMIT")
	holder, err := db.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), "LOCK TABLE t"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := app.ExecContext(ctx, "INSERT INTO t VALUES (1)")
		failed <- err
	}()
	cancel()
	if err := testbed.Await(t, "the cancellation", failed); err == nil {
		t.Error("not cancelled")
	}
	if err := holder.Rollback(); err != nil {
		t.Error(err)
	}
	preferring := link.URL(db.URL)
	cfg, err := pq.NewConfig(preferring)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SSLMode = pq.SSLModePrefer
	connector, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connector.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
