package pgstore_test

import (
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func detailOf(t *testing.T, w *worker, id string) work.Detail {
	t.Helper()
	found, err := w.store.Details(t.Context(), []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("details of %s: %d, %v", id, len(found), err)
	}
	return found[0]
}

func TestDetailsOfEachState(t *testing.T) {
	d, id, a, _ := fixture(t)
	x := detailOf(t, a, id)
	if x.State != work.Scheduled || x.PayloadBytes != 2 || x.Payload != nil || x.NextAttemptAt.IsZero() || !x.FinishedAt.IsZero() || len(x.History) != 0 {
		t.Errorf("scheduled: %+v", x)
	}
	c := a.one()
	x = detailOf(t, a, id)
	if x.State != work.Leased || x.LeaseHolder != "a" || !x.LeaseExpiresAt.After(x.AsOf) || len(x.History) != 1 {
		t.Fatalf("leased: %+v", x)
	}
	if h := x.History[0]; h.ID != c.AttemptID || h.Class != "" || !h.FinishedAt.IsZero() || h.StartedAt.IsZero() || h.Worker != "a" || h.Number != 1 || h.Generation != 1 {
		t.Errorf("open attempt: %+v", h)
	}
	a.record(failed(c))
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET next_attempt_at = now()`)
	c = a.one()
	a.record(dead(c))
	x = detailOf(t, a, id)
	if x.State != work.Dead || x.Reason != work.ReasonPermanent || x.Class != work.Rejected || x.Status != 400 || x.Fingerprint != "f" || x.Attempts != 2 || x.FinishedAt.IsZero() || x.LeaseHolder != "" {
		t.Errorf("dead: %+v", x)
	}
	if len(x.History) != 2 {
		t.Fatalf("%d attempts", len(x.History))
	}
	if h := x.History[0]; h.Class != work.Unavailable || h.Status != 503 || h.Message != "503" || h.Excerpt != "down" || h.FinishedAt.IsZero() {
		t.Errorf("first attempt: %+v", h)
	}
}

// Attempts of earlier generations stay, before those of later ones.
func TestDetailsShowEveryGeneration(t *testing.T) {
	d, id, a, _ := fixture(t)
	a.record(dead(a.one()))
	testbed.Exec(t, d, `
UPDATE whctl.deliveries SET state = 0, generation = 2, attempts = 0, next_attempt_at = now(), finished_at = NULL, reason = NULL, fingerprint = NULL`)
	a.one()
	x := detailOf(t, a, id)
	if len(x.History) != 2 || x.History[0].Generation != 1 || x.History[1].Generation != 2 || x.History[1].Number != 1 {
		t.Errorf("%+v", x.History)
	}
}

func TestDetailsInTheOrderAskedForWithoutThoseUnknown(t *testing.T) {
	d, id, a, _ := fixture(t)
	other := d.Enqueue(t, "r", "E-2", `{"n":1}`)
	found, err := a.store.Details(t.Context(), []string{other, "nobody", id})
	if err != nil || len(found) != 2 || found[0].DeliveryID != other || found[1].DeliveryID != id {
		t.Errorf("%+v, %v", found, err)
	}
}

// An attempt that ends while it is being read is seen once: everything comes from one
// snapshot.
func TestDetailsAreOneSnapshot(t *testing.T) {
	d, id, a, _ := fixture(t)
	c := a.one()
	link := testbed.Proxy(t, d.URL)
	s := openURL(t, link.URL(d.URL))
	// Between the row and its attempts, the attempt ends: the proxy sees the request for
	// the attempts before the server does.
	ended := false
	link.CutBefore(func(request []byte) bool {
		if !ended && testbed.Says("FROM whctl.attempts")(request) {
			ended = true
			a.record(failed(c))
		}
		return false
	})
	found, err := s.Details(t.Context(), []string{id})
	if err != nil || len(found) != 1 || !ended {
		t.Fatalf("%v, %v, ended %v", found, err, ended)
	}
	if x := found[0]; x.State != work.Leased || len(x.History) != 1 || x.History[0].Class != "" {
		t.Errorf("%+v", x)
	}
}

// Whoever may look at everything but payloads sees all of this.
func TestAReaderSeesDetailsAndLetters(t *testing.T) {
	d, id, a, _ := fixture(t)
	a.record(dead(a.one()))
	_, url := d.Login(t, "whctl_reader")
	s := openURL(t, url)
	found, err := s.Details(t.Context(), []string{id})
	if err != nil || len(found) != 1 || found[0].PayloadBytes != 2 {
		t.Errorf("details: %+v, %v", found, err)
	}
	letters, err := s.DeadLetters(t.Context(), work.LetterQuery{Limit: 10})
	if err != nil || len(letters) != 1 || letters[0].PayloadBytes != 2 {
		t.Errorf("letters: %+v, %v", letters, err)
	}
	if _, err := s.Destinations(t.Context()); err != nil {
		t.Error(err)
	}
	var payload []byte
	if _, err := s.Payload(t.Context(), 1); err == nil {
		t.Errorf("a reader read a payload: %q", payload)
	}
}

func TestDetailsOfAnEventWithEveryField(t *testing.T) {
	d, _, a, _ := fixture(t)
	testbed.Exec(t, d, `
SELECT whctl.enqueue('r', 'enrolment.changed', 'E-9', '{}', 'acme', 'v7', 'evt-1', '2026-03-01 10:00:00.25+00', 'del-9', NULL, '2126-03-02 10:00:00+00')`)
	x := detailOf(t, a, "del-9")
	if x.EventType != "enrolment.changed" || x.Subject != "E-9" || x.Tenant != "acme" || x.EventVersion != "v7" || x.EventID != "evt-1" ||
		!x.EventAt.Equal(time.Date(2026, 3, 1, 10, 0, 0, 250_000_000, time.UTC)) || x.NotAfter.Year() != 2126 {
		t.Errorf("%+v", x)
	}
}
