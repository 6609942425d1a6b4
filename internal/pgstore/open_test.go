package pgstore_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// Two pods migrate one new database at once.
func TestTwoMigrateAtOnce(t *testing.T) {
	for range 5 {
		d := testbed.EmptyDB(t)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			s := open(t, d)
			wg.Go(func() { _, errs[i] = s.MigrateUp(t.Context(), false) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.migrations WHERE version_id > 0`); n != pgstore.Version {
			t.Errorf("%d versions are recorded, want %d", n, pgstore.Version)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.schema_version WHERE version = $1`, pgstore.Version); n != 1 {
			t.Errorf("schema_version has %d rows of version %d, want 1", n, pgstore.Version)
		}
	}
}

func TestSchemaOfAnotherName(t *testing.T) {
	d := testbed.EmptyDB(t)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: "hooks"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	testbed.Exec(t, d, `INSERT INTO hooks.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	testbed.Exec(t, d, `SELECT hooks.enqueue('r', 'test', 's', '{}')`)
	if got := (&worker{t: t, store: s, owner: "a#1"}).claim(1); len(got) != 1 {
		t.Errorf("claimed %d in schema hooks, want 1", len(got))
	}
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM pg_namespace WHERE nspname = 'whctl'`); n != 0 {
		t.Error("the schema whctl was made as well")
	}
}

// The command to run names the schema that is missing.
func TestCheckSchemaOfAnotherName(t *testing.T) {
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: testbed.DB(t).URL, Schema: "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "whctl migrate up --schema nowhere") {
		t.Errorf("%v", err)
	}
}

func TestCheckSchema(t *testing.T) {
	cases := []struct {
		name, sql, want string
	}{
		{"fits", "", ""},
		{"newer, says nothing", `UPDATE whctl.schema_version SET version = version + 1`, "newer than this binary"},
		{"newer, compatible", `INSERT INTO whctl.schema_version VALUES (2, 1)`, ""},
		{"newer, incompatible", `INSERT INTO whctl.schema_version VALUES (2, 2)`, "newer than this binary"},
		{"older", `UPDATE whctl.schema_version SET version = 0`, "no schema"},
		{"missing", `DROP SCHEMA whctl CASCADE`, "migrate up"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := testbed.DB(t)
			if c.sql != "" {
				testbed.Exec(t, d, c.sql)
			}
			err := open(t, d).CheckSchema(t.Context())
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, work.ErrSchema) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want work.ErrSchema with %q", err, c.want)
			}
		})
	}
}

func TestOpenFaults(t *testing.T) {
	d := testbed.EmptyDB(t)
	other := func(change func(u *url.URL)) string {
		u, err := url.Parse(d.URL)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	cases := []struct {
		name, url string
		want      error
	}{
		{"no such database", other(func(u *url.URL) { u.Path = "/nosuch" }), work.ErrUnreachable},
		{"no such role", other(func(u *url.URL) { u.User = url.UserPassword("nosuch", "hunter2hunter2") }), work.ErrUnreachable},
		{"no SSL", other(func(u *url.URL) { u.RawQuery = "sslmode=require" }), work.ErrUnreachable},
		{"not a URL", "postgres://app:hunter2hunter2@%zz/", work.ErrConfig},
		{"several hosts with ports", "postgres://app:hunter2hunter2@a:5432,b:5433/x", work.ErrConfig},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := pgstore.Open(t.Context(), pgstore.Options{URL: c.url})
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the password: %v", err)
			}
		})
	}
}

// A database that takes no connections is renamed or restored just now.
func TestADatabaseThatTakesNoConnectionsIsTriedAgain(t *testing.T) {
	d := testbed.EmptyDB(t)
	other := testbed.EmptyDB(t)
	testbed.Exec(t, other, `ALTER DATABASE `+d.Name+` ALLOW_CONNECTIONS false`)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := pgstore.Open(ctx, pgstore.Options{URL: d.URL}); !errors.Is(err, work.ErrUnreachable) || ctx.Err() == nil {
		t.Errorf("%v, and it was tried for 3 s: %v", err, ctx.Err() != nil)
	}
}

// What is left of a DSN that was not quoted as it should be may be part of a password.
func TestADSNIsNeverQuoted(t *testing.T) {
	const secret = "hunter2"
	for _, dsn := range []string{
		"password=my hunter2",
		"password=my hunter2 user=app",
		`password=hunter2\`,
		"password='hunter2",
		"user=app password=a sslmode=hunter2",
		"port=hunter2",
		"hostaddr=hunter2",
		"hunter2",
		"mysql://app:hunter2@db/x",
		"postgres://app:hunter2/more@db/x",
		"postgres://app:12345/hunter2@db/x",
		"postgres://app:12345#hunter2@db/x",
		"postgres://app:12345?hunter2@db/x",
		"postgres://app:12345#hunter2",
		"postgres://app:%hunter2@db/x",
		"postgres://app:a b hunter2@db/x",
		"postgres://app:pass@db:hunter2/x",
	} {
		_, err := pgstore.Open(t.Context(), pgstore.Options{URL: dsn, IOTimeout: time.Second})
		if !errors.Is(err, work.ErrConfig) {
			t.Errorf("%s: error %v, want work.ErrConfig", dsn, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s is quoted: %v", dsn, err)
		}
	}
	for dsn, want := range map[string]string{
		"sslmode=nonsense": "the value of sslmode cannot be used", "host=a,b port=1,2,3": "could not match 3 port numbers to 2 hosts",
		"sslmode=require sslnegotiation=x": "the value of sslnegotiation", "password=two words": "single quotes", "postgres://a:b#c@d/e": "%XX",
	} {
		if _, err := pgstore.Open(t.Context(), pgstore.Options{URL: dsn}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", dsn, err, want)
		}
	}
}

// A key that the driver does not know goes to the server, which would quote it.
func TestASettingThatTheServerRefusesIsNotQuoted(t *testing.T) {
	u, err := url.Parse(testbed.EmptyDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	dsn := "host=" + u.Hostname() + " port=" + u.Port() + " user=app sslmode=disable dbname=" + u.Path[1:]
	openURL(t, dsn)
	_, err = pgstore.Open(t.Context(), pgstore.Options{URL: dsn + " password=my hunter2=x"})
	if !errors.Is(err, work.ErrConfig) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want work.ErrConfig that quotes nothing", err)
	}
}

// A link that swallows everything must not hold a call for ever, whatever its context.
func TestSilentLinkEndsACall(t *testing.T) {
	d := testbed.DB(t)
	link := testbed.Proxy(t, d.URL)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: link.URL(d.URL), IOTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	link.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // ends the tries, not the call
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Now(ctx)
		ended <- err
	}()
	if err := testbed.Await(t, "the end of a call on a silent link", ended); !errors.Is(err, work.ErrUnreachable) {
		t.Errorf("error %v, want work.ErrUnreachable", err)
	}
}

func TestWritesGoThroughATransactionPooler(t *testing.T) {
	d := testbed.DB(t)
	pool := testbed.Pooler(t, d, 3)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 'test', 's' || n, '{}') FROM generate_series(1, 100) n`)
	var wg sync.WaitGroup
	for range 4 {
		w := &worker{t: t, store: openURL(t, pool.URL), owner: "w#" + t.Name()}
		wg.Go(func() {
			for range 5 {
				for _, c := range w.claim(5) {
					w.record(delivered(c))
				}
			}
		})
	}
	wg.Wait()
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries WHERE state = 1`); n != 100 {
		t.Errorf("%d delivered through the pooler, want 100", n)
	}
	testbed.Check(t, d)
}
