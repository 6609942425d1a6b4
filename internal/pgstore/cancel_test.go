package pgstore_test

import (
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func cancellation(id string) work.Cancellation {
	return work.Cancellation{DeliveryID: id, Reason: "not wanted", Operator: "ana"}
}

// acts is the audit log of a delivery as "operator action reason", in order.
func acts(t *testing.T, d *testbed.Database, id string) string {
	t.Helper()
	return testbed.QueryString(t, d, `
SELECT string_agg(operator || ' ' || action || ' ' || reason, ', ' ORDER BY id) FROM whctl.audit_log WHERE delivery_id = $1`, id)
}

func TestCancelScheduled(t *testing.T) {
	d, id, a, _ := fixture(t)
	done, s, err := a.store.Cancel(t.Context(), cancellation(id))
	if err != nil || !done || s != work.Cancelled {
		t.Fatalf("cancel: %v, %s, %v", done, s, err)
	}
	if got := state(t, d, id); got != "cancelled" {
		t.Errorf("state %s", got)
	}
	if got := acts(t, d, id); got != "ana cancel not wanted" {
		t.Errorf("on record: %q", got)
	}
	testbed.Check(t, d)
}

func TestCancelRefusesAnyOtherState(t *testing.T) {
	for name, move := range map[work.State]func(*testing.T, *worker, work.Claimed){
		work.Leased:    func(*testing.T, *worker, work.Claimed) {},
		work.Delivered: func(_ *testing.T, w *worker, c work.Claimed) { w.record(delivered(c)) },
		work.Dead:      func(_ *testing.T, w *worker, c work.Claimed) { w.record(dead(c)) },
	} {
		t.Run(string(name), func(t *testing.T) {
			d, id, a, _ := fixture(t)
			move(t, a, a.one())
			done, s, err := a.store.Cancel(t.Context(), cancellation(id))
			if err != nil || done || s != name {
				t.Errorf("cancel: %v, %s, %v", done, s, err)
			}
			if got := acts(t, d, id); got != "" {
				t.Errorf("on record: %q", got)
			}
		})
	}
}

func TestCancelTwiceIsRefusedAndUnknownIsNotFound(t *testing.T) {
	d, id, a, _ := fixture(t)
	if done, _, err := a.store.Cancel(t.Context(), cancellation(id)); !done || err != nil {
		t.Fatal(done, err)
	}
	done, s, err := a.store.Cancel(t.Context(), cancellation(id))
	if err != nil || done || s != work.Cancelled {
		t.Errorf("the second time: %v, %s, %v", done, s, err)
	}
	if got := acts(t, d, id); got != "ana cancel not wanted" {
		t.Errorf("on record: %q", got)
	}
	if _, _, err := a.store.Cancel(t.Context(), cancellation("nobody")); !errors.Is(err, work.ErrNotFound) {
		t.Errorf("unknown id: %v", err)
	}
}

// A link that breaks around COMMIT must not turn a cancellation that was made into "not
// scheduled", nor one that was not made into a success, nor put one on record twice.
func TestCancelKnowsWhatBecameOfAnUnansweredCommit(t *testing.T) {
	for name, arm := range map[string]func(*testbed.Link) *testbed.Cut{
		"stored":     func(l *testbed.Link) *testbed.Cut { return l.CutAfterAnswer(testbed.Says("COMMIT")) },
		"not stored": func(l *testbed.Link) *testbed.Cut { return l.CutBefore(testbed.Says("COMMIT")) },
	} {
		t.Run(name, func(t *testing.T) {
			d, id, _, _ := fixture(t)
			link := testbed.Proxy(t, d.URL)
			s := openURL(t, link.URL(d.URL))
			cut := arm(link)
			done, _, err := s.Cancel(t.Context(), cancellation(id))
			testbed.Await(t, "the cut", cut.Done)
			if err != nil || !done {
				t.Errorf("cancel: %v, %v", done, err)
			}
			if got := acts(t, d, id); got != "ana cancel not wanted" {
				t.Errorf("on record: %q", got)
			}
		})
	}
}

func TestCancelNamesTheRoleWithoutAnOperator(t *testing.T) {
	d, id, a, _ := fixture(t)
	other := d.Enqueue(t, "r", "E-2", `{}`)
	if _, _, err := a.store.Cancel(t.Context(), cancellation(id)); err != nil {
		t.Fatal(err)
	}
	// The name of the first must not stick to the connection.
	if _, _, err := a.store.Cancel(t.Context(), work.Cancellation{DeliveryID: other, Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	if got := acts(t, d, other); got != "app cancel why" {
		t.Errorf("on record: %q", got)
	}
}

// The operator is the client's word. The role is not, and no grant lets anybody write it.
func TestTheRoleOnRecordIsNotForged(t *testing.T) {
	d, id, _, _ := fixture(t)
	role, url := d.Login(t, "whctl_producer")
	producer := login(t, url)
	if _, err := producer.ExecContext(t.Context(), `SET whctl.operator = 'ana'; SELECT whctl.cancel('`+id+`', 'why')`); err != nil {
		t.Fatal(err)
	}
	if got := testbed.QueryString(t, d, `SELECT operator || ' ' || role FROM whctl.audit_log`); got != "ana "+role {
		t.Errorf("on record: %q, want ana %s", got, role)
	}
	details, err := open(t, d).Details(t.Context(), []string{id})
	if err != nil || len(details) != 1 || len(details[0].Acts) != 1 || details[0].Acts[0].Role != role {
		t.Errorf("shown: %+v, %v", details, err)
	}
	operator, url := d.Login(t, "whctl_operator")
	acting := login(t, url)
	for _, forged := range []string{`role) VALUES ('ana', 'discard', 'why', 'ana')`, `at) VALUES ('ana', 'discard', 'why', now())`} {
		_, err := acting.ExecContext(t.Context(), `INSERT INTO whctl.audit_log (operator, action, reason, `+forged)
		if pq.As(err, "42501") == nil {
			t.Errorf("an operator wrote %s: %v", forged, err)
		}
	}
	if _, err := acting.ExecContext(t.Context(), `INSERT INTO whctl.audit_log (operator, action, reason) VALUES ('ana', 'discard', 'why')`); err != nil {
		t.Fatal(err)
	}
	if got := testbed.QueryString(t, d, `SELECT role FROM whctl.audit_log WHERE action = 'discard'`); got != operator {
		t.Errorf("on record: %s, want %s", got, operator)
	}
}

// login is a plain session.
func login(t *testing.T, url string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

// A producer may cancel and may not look: it learns that it was refused, and no more.
func TestCancelByAProducer(t *testing.T) {
	d, id, a, _ := fixture(t)
	a.one()
	free := d.Enqueue(t, "r", "E-2", `{}`)
	_, url := d.Login(t, "whctl_producer")
	s := openURL(t, url)
	if done, state, err := s.Cancel(t.Context(), cancellation(id)); done || state != "" || err != nil {
		t.Errorf("leased: %v, %q, %v", done, state, err)
	}
	if done, _, err := s.Cancel(t.Context(), cancellation(free)); !done || err != nil {
		t.Errorf("scheduled: %v, %v", done, err)
	}
}

func TestCancelInAnotherSchema(t *testing.T) {
	d := testbed.EmptyDB(t)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: "hooks"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ApplyDestinations(t.Context(), []work.Destination{{Name: "r", URL: "https://r.example/", Policy: "default"}}, false); err != nil {
		t.Fatal(err)
	}
	id := testbed.QueryString(t, d, `SELECT delivery_id FROM hooks.enqueue('r', 'e', 's', '{}')`)
	if done, _, err := s.Cancel(t.Context(), cancellation(id)); !done || err != nil {
		t.Fatal(done, err)
	}
	if got := testbed.QueryString(t, d, `SELECT operator FROM hooks.audit_log`); got != "ana" {
		t.Errorf("operator %q", got)
	}
	if found, err := s.Details(t.Context(), []string{id}); err != nil || len(found) != 1 {
		t.Errorf("details: %v, %v", found, err)
	}
	if _, err := s.DeadLetters(t.Context(), work.LetterQuery{Limit: 1}); err != nil {
		t.Error(err)
	}
}
