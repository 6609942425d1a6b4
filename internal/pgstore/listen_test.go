package pgstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
)

// words are a log that a test reads while it is written.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *words) count(s string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), s)
}

// ear listens until the test ends, and has to end then.
type ear struct {
	*pgstore.Listener
	t    *testing.T
	log  *words
	stop context.CancelFunc
}

func listen(t *testing.T, o pgstore.Options) *ear {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log := new(words)
	l, err := pgstore.Listen(ctx, o, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	e := &ear{l, t, log, cancel}
	t.Cleanup(e.end)
	return e
}

func (e *ear) end() {
	e.t.Helper()
	e.stop()
	select {
	case <-e.Ended():
	case <-time.After(10 * time.Second):
		e.t.Error("listening does not end with its context")
	}
}

// woken waits for a token.
func (e *ear) woken(by string) {
	e.t.Helper()
	testbed.Await(e.t, "waking: "+by, e.Wake)
}

// quiet fails where a token is there.
func (e *ear) quiet(after string) {
	e.t.Helper()
	select {
	case <-e.Wake:
		e.t.Errorf("woken without a cause, after %s", after)
	default:
	}
}

func receiverAt(t *testing.T) *testbed.Database {
	t.Helper()
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	return d
}

func enqueueMany(t *testing.T, d *testbed.Database, n int) {
	t.Helper()
	testbed.Exec(t, d, `INSERT INTO whctl.workers (owner, waiting) VALUES ('w#1', true) ON CONFLICT DO NOTHING`)
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 't', gen_random_uuid()::text, '{}') FROM generate_series(1, $1)`, n)
}

// listener is the process that serves the listening session.
const listenerSQL = `SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE datname = current_database() AND query = '' AND usename = 'app'`

func TestAnEnqueueWakes(t *testing.T) {
	d := receiverAt(t)
	e := listen(t, pgstore.Options{URL: d.URL})
	e.woken("listening begins")
	for range 200 { // one that came right behind another's is heard as well
		enqueueMany(t, d, 1)
		e.woken("an enqueue")
	}
}

// Whatever is put in by one transaction is one notification, and whatever nobody took is
// one token.
func TestManyEnqueuesWakeOnce(t *testing.T) {
	d := receiverAt(t)
	e := listen(t, pgstore.Options{URL: d.URL})
	e.woken("listening begins")
	enqueueMany(t, d, 1000)
	e.woken("1000 enqueues in a transaction")
	testbed.Exec(t, d, `SELECT pg_notify('another', '')`)
	for range 20 {
		enqueueMany(t, d, 1)
	}
	e.woken("20 transactions")
	if n := len(e.Wake); n > 1 {
		t.Errorf("%d tokens", n)
	}
}

func TestTheListenerOfAnotherSchemaSleeps(t *testing.T) {
	d := receiverAt(t)
	name := strings.Repeat("h", 63) // as long as a name may be
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: name})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	testbed.Exec(t, d, `INSERT INTO `+name+`.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	e := listen(t, pgstore.Options{URL: d.URL, Schema: name})
	e.woken("listening begins")
	enqueueMany(t, d, 1)
	testbed.Exec(t, d, `INSERT INTO `+name+`.workers (owner, waiting) VALUES ('w#1', true)`)
	testbed.Exec(t, d, `SELECT `+name+`.enqueue('r', 't', 's', '{}')`)
	e.woken("an enqueue in its schema")
	e.quiet("an enqueue in another schema")
}

func TestAKilledListenerComesBack(t *testing.T) {
	d := receiverAt(t)
	e := listen(t, pgstore.Options{URL: d.URL})
	e.woken("listening begins")
	for range 2 {
		until(t, "the listener to come to rest", func() bool { return testbed.QueryInt(t, d, listenerSQL) > 0 })
		testbed.Exec(t, d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = (`+listenerSQL+`)`)
		e.woken("a new beginning")
		enqueueMany(t, d, 1)
		e.woken("an enqueue")
	}
	if e.log.count("level=WARN") != 2 || e.log.count("level=INFO") != 2 {
		t.Errorf("log:\n%s", e.log.text.String())
	}
}

// A server that is down for a while: one line says so, and one that it is back.
func TestAServerThatWasDownIsHeardAgain(t *testing.T) {
	d, server := testbed.AloneDB(t)
	d.Destination(t, "r", "https://r.example/")
	e := listen(t, pgstore.Options{URL: d.URL})
	e.woken("listening begins")
	server.Halt()
	until(t, "the line", func() bool { return e.log.count("level=WARN") > 0 })
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.woken("a new beginning")
	enqueueMany(t, d, 1)
	e.woken("an enqueue")
	if e.log.count("level=WARN") != 1 || e.log.count("level=INFO") != 1 {
		t.Errorf("log:\n%s", e.log.text.String())
	}
}

// A link that swallows everything does not hold the end up.
func TestListeningEndsOnASilentLink(t *testing.T) {
	d := receiverAt(t)
	link := testbed.Proxy(t, d.URL)
	e := listen(t, pgstore.Options{URL: link.URL(d.URL), IOTimeout: 200 * time.Millisecond})
	e.woken("listening begins")
	until(t, "the listener to come to rest", func() bool { return testbed.QueryInt(t, d, listenerSQL) > 0 })
	link.Hold()
	e.end() // in the middle of a wait
}

// Listening ends with its context also where nothing answers, and between two tries.
func TestListeningEndsWhileItConnects(t *testing.T) {
	d := receiverAt(t)
	link := testbed.Proxy(t, d.URL)
	link.Hold()
	e := listen(t, pgstore.Options{URL: link.URL(d.URL)})
	until(t, "the connection", func() bool { return link.Open() > 0 })
	e.end()
	link.Refuse()
	e = listen(t, pgstore.Options{URL: link.URL(d.URL)})
	until(t, "the line", func() bool { return e.log.count("level=WARN") > 0 })
	e.end()
}

// Behind a pooler a notification would reach whoever has the server's session then.
func TestAPoolerIsNotListenedThrough(t *testing.T) {
	d := receiverAt(t)
	e := listen(t, pgstore.Options{URL: testbed.Pooler(t, d, 3).URL})
	testbed.Await(t, "the end", e.Ended())
	if e.log.count("level=INFO") != 1 || e.log.count("pooler") == 0 || e.log.count("level=WARN") != 0 {
		t.Errorf("log:\n%s", e.log.text.String())
	}
	e.quiet("giving up")
}

// The role has no session left for it: the worker looks by itself.
func TestNoSessionLeftToListen(t *testing.T) {
	d := receiverAt(t)
	role, dsn := d.Login(t, "whctl_worker")
	testbed.Exec(t, d, `ALTER ROLE `+role+` CONNECTION LIMIT 1`)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: dsn})
	if err != nil {
		t.Fatal(err)
	}
	e := listen(t, pgstore.Options{URL: dsn})
	until(t, "the line", func() bool { return e.log.count("level=WARN") > 0 })
	if e.log.count("53300") != 1 {
		t.Errorf("log:\n%s", e.log.text.String())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	e.woken("a session came free")
}

func TestTheListenerNeverQuotesAPassword(t *testing.T) {
	u, err := url.Parse(testbed.EmptyDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("nobody_here", "hunter2hunter2")
	e := listen(t, pgstore.Options{URL: u.String()})
	until(t, "the line", func() bool { return e.log.count("level=WARN") > 0 })
	if e.log.count("hunter2") > 0 {
		t.Errorf("log:\n%s", e.log.text.String())
	}
}

// until waits for a condition that nothing announces.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited too long for %s", what)
		}
	}
}
