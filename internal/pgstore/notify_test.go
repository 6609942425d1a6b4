package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// Whoever listens hears once of each transaction that brought something, and of a
// destination that goes on.
func TestListenersHearThatSomethingMayBeDue(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	l := pq.NewListener(d.URL, time.Second, time.Second, nil)
	defer func() { _ = l.Close() }()
	if err := l.Listen("whctl_due"); err != nil {
		t.Fatal(err)
	}
	heard := func(what string) {
		t.Helper()
		if n := testbed.Await(t, what, l.Notify); n == nil || n.Extra != "" {
			t.Errorf("%s: heard %+v", what, n)
		}
	}
	s := open(t, d)
	waits := func(waiting bool) {
		t.Helper()
		if _, _, err := s.Beat(t.Context(), "w#1", waiting); err != nil {
			t.Fatal(err)
		}
	}
	// One that is at work looks again by itself.
	waits(false)
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 't', 'early', '{}')`)
	testbed.Exec(t, d, `NOTIFY whctl_due, 'quiet'`)
	if n := testbed.Await(t, "silence", l.Notify); n == nil || n.Extra != "quiet" {
		t.Errorf("heard %+v while nobody waited", n)
	}
	waits(true)
	testbed.Exec(t, d, `
DO $$ BEGIN
  PERFORM whctl.enqueue('r', 't', 'a', '{}');
  PERFORM whctl.enqueue('r', 't', 'b', '{}');
END $$`)
	heard("an enqueue")
	if _, err := s.ResumeDestination(t.Context(), work.DestinationAct{Name: "r", Operator: "ana", Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	heard("a destination that goes on")
	// In order: what came in between would have been heard before.
	testbed.Exec(t, d, `NOTIFY whctl_due, 'end'`)
	if n := testbed.Await(t, "the end", l.Notify); n == nil || n.Extra != "end" {
		t.Errorf("heard %+v once too often", n)
	}
}

// The longest name of a schema leaves no room for the channel's ending.
func TestListenersOfALongSchema(t *testing.T) {
	d := testbed.EmptyDB(t)
	schema := strings.Repeat("x", 63)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	l := pq.NewListener(d.URL, time.Second, time.Second, nil)
	defer func() { _ = l.Close() }()
	if err := l.Listen(schema[:59] + "_due"); err != nil {
		t.Fatal(err)
	}
	testbed.Exec(t, d, `INSERT INTO `+schema+`.destinations (name, url) VALUES ('r', 'https://r.example/')`)
	// The rest is at home in another schema, too.
	if _, known, err := s.Beat(t.Context(), "w#1", true); err != nil || known {
		t.Errorf("beat: known %t, %v", known, err)
	}
	testbed.Exec(t, d, `SELECT `+schema+`.enqueue('r', 't', 'a', '{}')`)
	testbed.Await(t, "an enqueue", l.Notify)
	v, err := s.Survey(t.Context())
	if err != nil || len(v.Due) != 1 {
		t.Fatalf("survey: %+v, %v", v, err)
	}
	w := &worker{t: t, store: s, owner: "w#1"}
	if got, err := s.Shares(t.Context(), w.owner, []work.Want{{DestinationID: v.Due[0].ID, Cap: 3}}); err != nil || got[0].Room != 3 {
		t.Errorf("shares: %+v, %v", got, err)
	}
	if got := w.take(budget(asking(w, work.Ask{DestinationID: v.Due[0].ID, Room: 1, Lease: time.Minute, Ticket: true}), 1)); len(got.Claimed) != 1 {
		t.Errorf("claimed %+v", got)
	}
	if got, err := s.Judge(t.Context(), []work.Trial{trial(v.Due[0].ID, work.OK)}, counting); err != nil || !got[0].Clean() {
		t.Errorf("judged: %+v, %v", got, err)
	}
}
