package pgstore_test

import (
	"testing"
	"time"

	"github.com/lib/pq"

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
	testbed.Exec(t, d, `
DO $$ BEGIN
  PERFORM whctl.enqueue('r', 't', 'a', '{}');
  PERFORM whctl.enqueue('r', 't', 'b', '{}');
END $$`)
	heard("an enqueue")
	if _, err := open(t, d).ResumeDestination(t.Context(), work.DestinationAct{Name: "r", Operator: "ana", Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	heard("a destination that goes on")
	// In order: what came in between would have been heard before.
	testbed.Exec(t, d, `NOTIFY whctl_due, 'end'`)
	if n := testbed.Await(t, "the end", l.Notify); n == nil || n.Extra != "end" {
		t.Errorf("heard %+v once too often", n)
	}
}
