package pgstore_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// silence makes it long that something was heard of a worker.
func silence(t *testing.T, d *testbed.Database, owner string) {
	t.Helper()
	testbed.Exec(t, d, `UPDATE whctl.workers SET seen_at = now() - interval '6 seconds' WHERE owner = $1`, owner)
}

// remains is what counts of workers that are gone, as "destination owner room".
func remains(t *testing.T, d *testbed.Database) string {
	t.Helper()
	return testbed.QueryString(t, d, `
SELECT string_agg(x.name || ' ' || split_part(h.owner, '#', 1) || ' ' || h.room, ', ' ORDER BY x.name, h.owner)
FROM whctl.shares h JOIN whctl.destinations x ON x.id = h.destination_id WHERE h.expires_at IS NOT NULL`)
}

func TestBeatSaysWhoIsThere(t *testing.T) {
	d := testbed.DB(t)
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	check := func(w *worker, others int, known bool) {
		t.Helper()
		n, k, err := w.store.Beat(t.Context(), w.owner, false)
		if err != nil || n != others || k != known {
			t.Errorf("%s: %d others, known %t, %v; want %d, %t", w.owner, n, k, err, others, known)
		}
	}
	check(a, 0, false)
	check(a, 0, true)
	check(b, 1, false)
	silence(t, d, a.owner)
	check(b, 0, true)
	check(a, 1, false)
	silence(t, d, a.owner)
	check(a, 1, true) // one that was late is not taken out by itself
	if err := b.store.Leave(t.Context(), b.owner, false); err != nil {
		t.Fatal(err)
	}
	check(a, 0, true)
}

func TestWhatASilentWorkerHasInFlightGoesOnCounting(t *testing.T) {
	d := testbed.DB(t)
	for _, name := range []string{"p", "q", "r"} {
		d.Destination(t, name, "https://r.example/")
	}
	testbed.Exec(t, d, `SELECT whctl.enqueue(x, 't', 's' || n, '{}') FROM unnest('{p,q,r}'::text[]) x, generate_series(1, 5) n`)
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	a.claim(2)
	testbed.Exec(t, d, `INSERT INTO whctl.shares (destination_id, owner, room) SELECT x.id, $1, 4 FROM whctl.destinations x`, a.owner)
	// Of q both are recorded, of r one lease has run out.
	testbed.Exec(t, d, `
UPDATE whctl.deliveries d SET lease_expires_at = NULL, lease_owner = NULL, attempt_id = NULL
FROM whctl.destinations x WHERE x.id = d.destination_id AND x.name = 'q' AND d.attempt_id IS NOT NULL`)
	testbed.Exec(t, d, `
UPDATE whctl.deliveries SET lease_expires_at = now() - interval '1 second'
WHERE id = (SELECT min(d.id) FROM whctl.deliveries d JOIN whctl.destinations x ON x.id = d.destination_id AND x.name = 'r')`)
	silence(t, d, a.owner)
	b.beat()
	if got := remains(t, d); got != "p a 2, r a 1" {
		t.Errorf("remains: %s", got)
	}
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.shares WHERE expires_at IS NULL`); n != 0 {
		t.Errorf("%d shares of the worker that is gone are left", n)
	}
	if n := testbed.QueryInt(t, d, `
SELECT count(*) FROM whctl.shares h
WHERE h.expires_at <> (SELECT max(d.lease_expires_at) FROM whctl.deliveries d WHERE d.destination_id = h.destination_id)`); n != 0 {
		t.Errorf("%d remains end otherwise than their last lease", n)
	}
	testbed.Exec(t, d, `UPDATE whctl.shares SET expires_at = now() - interval '1 second'`)
	b.beat()
	if got := remains(t, d); got != "" {
		t.Errorf("remains that are over are still there: %s", got)
	}
}

func TestClaimsOfAWorkerThatIsGone(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	d.Enqueue(t, "r", "s", `{}`)
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	a.beat()
	silence(t, d, a.owner)
	b.beat()
	for what, room := range map[string]int{"a claim": 1, "a claim of nothing": 0} {
		got, err := a.try(room)
		if !errors.Is(err, work.ErrNoWorker) || len(got) != 0 {
			t.Errorf("%s: %+v, %v; want work.ErrNoWorker", what, got, err)
		}
	}
	if _, err := a.store.Shares(t.Context(), a.owner, nil); !errors.Is(err, work.ErrNoWorker) {
		t.Errorf("shares: %v; want work.ErrNoWorker", err)
	}
	if got := a.one(); got.Attempt != 1 { // after a beat
		t.Errorf("claimed %+v", got)
	}
}

// try claims without a beat.
func (w *worker) try(room int) ([]work.Claimed, error) {
	w.t.Helper()
	r := work.ClaimRequest{Owner: w.owner}
	for _, d := range survey(w.t, w.store) {
		r.Asks = append(r.Asks, work.Ask{DestinationID: d.ID, Room: room, Lease: time.Minute})
		for range room {
			r.AttemptIDs = append(r.AttemptIDs, uuid.New())
		}
	}
	got, err := w.store.Claim(w.t.Context(), r)
	return got.Claimed, err
}

// share takes a share of all that is due.
func (w *worker) share() {
	w.t.Helper()
	var wants []work.Want
	for _, d := range survey(w.t, w.store) {
		wants = append(wants, work.Want{DestinationID: d.ID, Cap: 1000})
	}
	if _, err := w.store.Shares(w.t.Context(), w.owner, wants); err != nil {
		w.t.Fatal(err)
	}
}

// While one claims, the other takes it out again and again: what was claimed stands in
// the remains, or was not claimed.
func TestWorkersAreTakenOutWhileTheyClaim(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 't', 's' || n, '{}') FROM generate_series(1, 300) n`)
	refused := 0
	for i := range 60 {
		a, b := newWorkerOn(t, d, i), newWorkerOn(t, d, 1000+i)
		a.beat()
		a.share()
		silence(t, d, a.owner)
		var claimed []work.Claimed
		var failed error
		var wg sync.WaitGroup
		wg.Go(func() { claimed, failed = a.try(3) })
		wg.Go(b.beat)
		wg.Wait()
		if failed != nil && !errors.Is(failed, work.ErrNoWorker) {
			t.Fatal(failed)
		}
		if failed != nil {
			refused++
		}
		b.beat() // a beat that met the claim left it alone
		left := testbed.QueryInt(t, d, `SELECT coalesce(sum(room), 0) FROM whctl.shares WHERE owner = $1 AND expires_at IS NOT NULL`, a.owner)
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries WHERE lease_owner = $1`, a.owner); n != left || n != int64(len(claimed)) {
			t.Fatalf("round %d: %d deliveries are leased, %d were claimed, %d count as remains", i, n, len(claimed), left)
		}
		if err := b.store.Leave(t.Context(), b.owner, true); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 60 claims were refused", refused)
}

// The grants of whctl_worker are enough for all that a worker does.
func TestAWorkersGrantsAreEnough(t *testing.T) {
	for _, group := range []string{"whctl_worker", "whctl_operator"} {
		d := testbed.DB(t)
		d.Destination(t, "r", "https://r.example/")
		testbed.Exec(t, d, `SELECT whctl.enqueue('r', 't', 's' || n, '{}') FROM generate_series(1, 3) n`)
		_, url := d.Login(t, group)
		a := &worker{t: t, store: openURL(t, url), owner: "a#1"}
		b := &worker{t: t, store: a.store, owner: "b#1"}
		b.beat()
		b.share()
		b.claim(1)
		silence(t, d, b.owner)
		a.beat()
		id := survey(t, a.store)[0].ID
		for _, busy := range []int{0, 1} {
			if got, err := a.store.Shares(t.Context(), a.owner, []work.Want{{DestinationID: id, Cap: 3, Busy: busy}}); err != nil || got[0].Room != 2 {
				t.Errorf("%s: shares %+v, %v", group, got, err)
			}
		}
		if _, err := a.store.Shares(t.Context(), a.owner, []work.Want{{DestinationID: id, Cap: 1}}); err != nil {
			t.Errorf("%s: lower a share: %v", group, err)
		}
		if got := a.take(budget(asking(a, work.Ask{DestinationID: id, Room: 1, Lease: time.Minute, Ticket: true}), 1)); len(got.Claimed) != 1 || got.Health[0].Failures != 1 {
			t.Errorf("%s: claimed %+v", group, got)
		}
		if _, err := a.store.Judge(t.Context(), []work.Trial{trial(id, work.Timeout)}, counting); err != nil {
			t.Errorf("%s: %v", group, err)
		}
		if err := a.store.Leave(t.Context(), a.owner, false); err != nil {
			t.Errorf("%s: %v", group, err)
		}
		if got := remains(t, d); got != "r a 1, r b 1" {
			t.Errorf("%s: remains %s, want what each has in flight", group, got)
		}
	}
}
