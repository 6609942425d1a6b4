package pgstore_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
)

// overheard are the requests that pass over a link.
type overheard struct {
	mu  sync.Mutex
	all []string
}

func overhear(link *testbed.Link) *overheard {
	o := &overheard{}
	link.CutBefore(func(request []byte) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, string(request))
		return false
	})
	return o
}

// since forgets what was heard and says it.
func (o *overheard) since() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// namedParse is the protocol's Parse of a statement that is to stay: its name is not
// empty (the driver counts), and the query follows.
var namedParse = regexp.MustCompile(`(?s)^P.{4}[0-9]+\x00`)

func openAt(t *testing.T, url string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func look(t *testing.T, s *pgstore.Store) {
	t.Helper()
	if _, _, err := s.Destination(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
}

// A transaction costs a round trip to begin with its settings, one for its statement and
// one to end. A statement that comes again is prepared, and goes without its text then.
func TestSaysLittle(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 'test', 's', '{}')`)
	id := testbed.QueryInt(t, d, `SELECT id FROM whctl.envelopes`)
	link := testbed.Proxy(t, d.URL)
	s := openAt(t, link.URL(d.URL))
	read := func() {
		if _, err := s.Payload(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	read()
	read()
	heard := overhear(link)
	read()
	got := heard.since()
	if len(got) != 3 {
		t.Fatalf("%d requests, want 3: %q", len(got), got)
	}
	if !strings.Contains(got[0], "BEGIN READ ONLY; SET LOCAL jit = off") {
		t.Errorf("begins with %q", got[0])
	}
	if strings.Contains(got[1], "SELECT") || got[1][0] != 'B' {
		t.Errorf("the statement went as %q, want it bound by name alone", got[1])
	}
}

// The pooler gives each transaction another session: nothing is prepared, and nobody
// meets the statement of another.
func TestPreparesNothingBehindAPooler(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	pool := testbed.Pooler(t, d, 2)
	link := testbed.Proxy(t, pool.URL)
	heard := overhear(link)
	var wg sync.WaitGroup
	for range 3 {
		s := openAt(t, link.URL(pool.URL))
		wg.Go(func() {
			for range 20 {
				if _, _, err := s.Destination(t.Context(), "r"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	all := heard.since()
	if len(all) < 3*20*3 {
		t.Errorf("overheard %d requests, want three for each transaction", len(all))
	}
	if i := slices.IndexFunc(all, namedParse.MatchString); i >= 0 {
		t.Errorf("prepared: %q", all[i])
	}
}

// A migration beside a running worker may change what a prepared statement answers with.
func TestResultChangesItsForm(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	link := testbed.Proxy(t, d.URL)
	s := openAt(t, link.URL(d.URL))
	for range 3 {
		look(t, s)
	}
	testbed.Exec(t, d, `ALTER TABLE whctl.destinations ALTER COLUMN policy TYPE varchar(100)`)
	look(t, s)
	heard := overhear(link)
	look(t, s)
	look(t, s)
	if all := heard.since(); slices.ContainsFunc(all, func(r string) bool { return r[0] == 'B' || namedParse.MatchString(r) }) {
		t.Errorf("still prepared after a refusal: %q", all)
	}
}
