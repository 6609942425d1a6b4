package pgstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func TestClaimIsTheStart(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id := d.Enqueue(t, "r", "E-1", `{"a":1}`)
	c := newWorker(t, d, "a").one()
	if c.Lost || c.Attempt != 1 || c.Generation != 1 || string(c.Envelope.Payload) != `{"a":1}` || c.Envelope.DeliveryID != id {
		t.Errorf("claimed %+v", c)
	}
	if got := state(t, d, id); got != "leased" {
		t.Errorf("state %s, want leased", got)
	}
	if got := history(t, d, id); got != "1.1 open a" {
		t.Errorf("history %q", got)
	}
	if again := newWorker(t, d, "b").claim(1); len(again) != 0 {
		t.Errorf("a second worker claimed %d, want none: the lease is live", len(again))
	}
	testbed.Check(t, d)
}

// A claim with LIMIT in a sub-select may touch more rows than it says, by the plan.
func TestClaimTakesNoMoreThanAsked(t *testing.T) {
	d := testbed.DB(t)
	for _, s := range []string{"hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize", "indexscan", "bitmapscan", "indexonlyscan"} {
		d.Set(t, "enable_"+s, "off")
	}
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 'test', 's' || n, '{}') FROM generate_series(1, 50) n`)
	if got := newWorker(t, d, "a").claim(5); len(got) != 5 {
		t.Errorf("claimed %d, want 5", len(got))
	}
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries WHERE attempt_id IS NOT NULL`); n != 5 {
		t.Errorf("%d rows are leased, want 5", n)
	}
}

func TestClaimsShareTheWorkWithoutOverlap(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 'test', 's' || n, '{}') FROM generate_series(1, 200) n`)
	var mu sync.Mutex
	seen := map[int64]int{}
	var wg sync.WaitGroup
	for range 4 {
		w := newWorker(t, d, "w")
		wg.Go(func() {
			for range 20 {
				for _, c := range w.claim(10) {
					mu.Lock()
					seen[c.ID]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != 200 {
		t.Errorf("%d deliveries were claimed, want 200", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("row %d was claimed %d times under live leases", id, n)
		}
	}
}

func TestTakeoverKeepsTheAttempt(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id := d.Enqueue(t, "r", "E-1", `{}`)
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	first := a.one()
	expire(t, d)
	c := b.one()
	if !c.Lost || c.AttemptID != first.AttemptID || c.Attempt != 1 || c.Envelope.Payload != nil {
		t.Errorf("took over %+v, want attempt %s as lost, without its payload", c, first.AttemptID)
	}
	b.record(lost(c))
	if got := history(t, d, id); got != "1.1 lost a" {
		t.Errorf("history %q: the lost attempt is its own worker's", got)
	}
	if next := b.one(); next.Lost || next.Attempt != 2 {
		t.Errorf("then claimed %+v, want attempt 2", next)
	}
	testbed.Check(t, d)
}

func TestClaimGivesBackWhatMayBeIts(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id := d.Enqueue(t, "r", "E-1", `{}`)
	link := testbed.Proxy(t, d.URL)
	w := &worker{t: t, store: openURL(t, link.URL(d.URL)), owner: "a#1"}
	due := survey(t, w.store)
	w.beat()
	cut := link.CutAfterAnswer(testbed.Says("COMMIT"))
	result, err := w.store.Claim(t.Context(), work.ClaimRequest{
		Owner: w.owner, Asks: []work.Ask{{DestinationID: due[0].ID, Room: 1, Lease: time.Minute}}, AttemptIDs: []uuid.UUID{uuid.New()},
	})
	if err != nil || len(result.Claimed) != 1 {
		t.Fatalf("claimed %v, %v; want the delivery, after giving back the unanswered claim", result, err)
	}
	got := result.Claimed
	testbed.Await(t, "the cut", cut.Done)
	if got[0].Attempt != 1 || got[0].Lost {
		t.Errorf("claimed %+v: the unanswered claim must not count", got[0])
	}
	w.record(delivered(got[0]))
	if got := history(t, d, id); got != "1.1 ok a" {
		t.Errorf("history %q", got)
	}
	testbed.Check(t, d)
}

// The signal comes while a claim is on its way that is stored and not answered: it is
// given back all the same, for nothing of it was sent.
func TestClaimGivesBackAfterASignal(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id := d.Enqueue(t, "r", "E-1", `{}`)
	link := testbed.Proxy(t, d.URL)
	store := openURL(t, link.URL(d.URL))
	due := survey(t, store)
	beat(t, store, "a#1")
	ctx, stop := context.WithCancel(t.Context())
	cut := link.CutAfterAnswer(func(b []byte) bool {
		match := testbed.Says("COMMIT")(b)
		if match {
			stop()
		}
		return match
	})
	got, err := store.Claim(ctx, work.ClaimRequest{
		Owner: "a#1", Asks: []work.Ask{{DestinationID: due[0].ID, Room: 1, Lease: time.Minute}}, AttemptIDs: []uuid.UUID{uuid.New()},
	})
	testbed.Await(t, "the cut", cut.Done)
	if err == nil || errors.Is(err, work.ErrUnknown) {
		t.Errorf("claimed %v, %v", got, err)
	}
	left := testbed.QueryString(t, d, `SELECT state || ' ' || attempts FROM whctl.delivery_status WHERE delivery_id = $1`, id)
	if left != "scheduled 0" {
		t.Errorf("left %s", left)
	}
	testbed.Check(t, d)
}

// A commit that is not answered in time may take effect later: until then what it took
// cannot be seen, nor given back.
func TestClaimWaitsForALateCommit(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	d.Enqueue(t, "r", "E-1", `{}`)
	testbed.Exec(t, d, `
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON whctl.deliveries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
	blocker, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(42)`); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, IOTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	due := survey(t, store)
	beat(t, store, "a#1")
	claimed := make(chan []work.Claimed, 1)
	go func() {
		got, err := store.Claim(t.Context(), work.ClaimRequest{
			Owner: "a#1", Asks: []work.Ask{{DestinationID: due[0].ID, Room: 1, Lease: time.Minute}}, AttemptIDs: []uuid.UUID{uuid.New()},
		})
		if err != nil {
			t.Error(err)
		}
		claimed <- got.Claimed
	}()
	// Besides the session that commits, one that asks what became of it.
	for testbed.QueryInt(t, d, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'whctl'`) < 2 {
		if len(claimed) > 0 {
			t.Fatal("nobody asked what became of the transaction")
		}
	}
	if err := blocker.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := testbed.Await(t, "the claim", claimed); len(got) != 1 || got[0].Attempt != 1 || got[0].Lost {
		t.Errorf("claimed %+v, want the delivery, uncharged by the claim that came late", got)
	}
}

func TestLargePayloadsAreLeftOut(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	big := make([]byte, 2<<10)
	for i := range big {
		big[i] = '1'
	}
	d.Enqueue(t, "r", "E-1", string(big))
	w := newWorker(t, d, "a")
	c := w.one()
	if c.Envelope.Payload != nil || c.PayloadBytes != len(big) {
		t.Errorf("payload of %d bytes came with the claim, size %d", len(c.Envelope.Payload), c.PayloadBytes)
	}
	got, err := w.store.Payload(t.Context(), c.ID)
	if err != nil || string(got) != string(big) {
		t.Errorf("payload read apart: %d bytes, %v", len(got), err)
	}
}

func TestExpiredIsMarked(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 'test', 's', '{}', not_before => now() - interval '2 hours', not_after => now() - interval '1 hour')`)
	if c := newWorker(t, d, "a").one(); !c.Expired {
		t.Errorf("claimed %+v, want it marked as expired", c)
	}
}

// What may have killed its worker is claimed apart from all else.
func TestSuspectsAreClaimedApart(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	for _, subject := range []string{"a", "b", "c"} {
		d.Enqueue(t, "r", subject, `{}`)
	}
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	a.claim(2)
	expire(t, d)
	for _, c := range b.claim(3) {
		if c.Lost {
			b.record(lost(c))
		} else {
			b.record(work.Result{ID: c.ID, AttemptID: c.AttemptID, Move: work.MoveRelease})
		}
	}
	due := survey(t, b.store)
	if !due[0].Suspects {
		t.Fatalf("destinations %+v; want it known that there are suspects", due)
	}
	ask := func(suspects bool) []work.Claimed {
		got, err := b.store.Claim(t.Context(), work.ClaimRequest{
			Owner: b.owner, Asks: []work.Ask{{DestinationID: due[0].ID, Room: 5, Lease: time.Minute, Suspects: suspects}},
			AttemptIDs: []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()},
		})
		if err != nil {
			t.Fatal(err)
		}
		return got.Claimed
	}
	if got := ask(false); len(got) != 1 || got[0].Suspect || got[0].Attempt != 1 {
		t.Errorf("the others: %+v, want the one that was never lost", got)
	}
	if got := ask(true); len(got) != 2 || !got[0].Suspect || got[0].Attempt != 2 {
		t.Errorf("suspects: %+v, want the two that were lost", got)
	}
}
