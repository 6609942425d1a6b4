package pgstore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// open is a store on d that is closed with the test.
func open(t *testing.T, d *testbed.Database) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// worker claims and records under an owner of its own.
type worker struct {
	t     *testing.T
	store *pgstore.Store
	owner string
}

func newWorker(t *testing.T, d *testbed.Database, label string) *worker {
	return &worker{t: t, store: open(t, d), owner: label + "#" + uuid.NewString()[:8]}
}

// claim takes up to room deliveries of every destination that has work.
func (w *worker) claim(room int) []work.Claimed {
	w.t.Helper()
	due := survey(w.t, w.store)
	w.beat()
	r := work.ClaimRequest{Owner: w.owner, InlineMax: 1 << 10}
	for _, d := range due {
		for _, suspects := range []bool{false, true} {
			r.Asks = append(r.Asks, work.Ask{DestinationID: d.ID, Room: room, Lease: time.Minute, Suspects: suspects})
			for range room {
				r.AttemptIDs = append(r.AttemptIDs, uuid.New())
			}
		}
	}
	if len(r.Asks) == 0 {
		return nil
	}
	got, err := w.store.Claim(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Claimed
}

// beat says that the worker is alive.
func (w *worker) beat() {
	w.t.Helper()
	beat(w.t, w.store, w.owner)
}

func beat(t *testing.T, s *pgstore.Store, owner string) {
	t.Helper()
	if _, _, err := s.Beat(t.Context(), owner, false); err != nil {
		t.Fatal(err)
	}
}

// survey is who has something due.
func survey(t *testing.T, s *pgstore.Store) []work.Destination {
	t.Helper()
	v, err := s.Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v.Due
}

// one claims a single delivery.
func (w *worker) one() work.Claimed {
	w.t.Helper()
	got := w.claim(1)
	if len(got) != 1 {
		w.t.Fatalf("claimed %d deliveries, want 1", len(got))
	}
	return got[0]
}

// record writes one result and returns its fate.
func (w *worker) record(r work.Result) work.Fate {
	w.t.Helper()
	fates, err := w.store.Record(w.t.Context(), w.owner, []work.Result{r})
	if err != nil {
		w.t.Fatal(err)
	}
	return fates[0]
}

func delivered(c work.Claimed) work.Result {
	return work.Result{ID: c.ID, AttemptID: c.AttemptID, Worker: c.Holder, Move: work.MoveDelivered, Outcome: work.Outcome{Class: work.OK, Status: 200, Latency: time.Millisecond}}
}

func failed(c work.Claimed) work.Result {
	return work.Result{
		ID: c.ID, AttemptID: c.AttemptID, Worker: c.Holder, Move: work.MoveScheduled, Delay: time.Hour,
		Outcome: work.Outcome{Class: work.Unavailable, Status: 503, Message: "503", Excerpt: "down"},
	}
}

func lost(c work.Claimed) work.Result {
	return work.Result{ID: c.ID, AttemptID: c.AttemptID, Worker: c.Holder, Move: work.MoveScheduled, Outcome: work.Outcome{Class: work.Lost, Message: "lost"}}
}

func dead(c work.Claimed) work.Result {
	return work.Result{
		ID: c.ID, AttemptID: c.AttemptID, Worker: c.Holder, Move: work.MoveDead, Reason: work.ReasonPermanent, Fingerprint: "f",
		Outcome: work.Outcome{Class: work.Rejected, Status: 400},
	}
}

// expire ends the leases of everything that is leased.
func expire(t *testing.T, d *testbed.Database) {
	t.Helper()
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET lease_expires_at = now() - interval '1 second' WHERE attempt_id IS NOT NULL`)
}

func state(t *testing.T, d *testbed.Database, id string) string {
	t.Helper()
	return testbed.QueryString(t, d, `SELECT state FROM whctl.delivery_status WHERE delivery_id = $1`, id)
}

// history is the attempts of a delivery as "generation.attempt class worker", in order.
func history(t *testing.T, d *testbed.Database, id string) string {
	t.Helper()
	return testbed.QueryString(t, d, `
SELECT string_agg(generation || '.' || attempt || ' ' || coalesce(class, 'open') || ' ' || worker, ', ' ORDER BY generation, attempt)
FROM whctl.attempt_history WHERE delivery_id = $1`, id)
}

// newWorkerOn is a worker on one of a few stores that a test shares.
func newWorkerOn(t *testing.T, d *testbed.Database, n int) *worker {
	t.Helper()
	return &worker{t: t, store: open(t, d), owner: fmt.Sprintf("w%d#%s", n, uuid.NewString()[:8])}
}
