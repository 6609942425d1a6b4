package pgstore_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// asking is a claim of some asks, with an id for each place.
func asking(w *worker, asks ...work.Ask) work.ClaimRequest {
	r := work.ClaimRequest{Owner: w.owner, Asks: asks}
	for _, a := range asks {
		for range a.Room {
			r.AttemptIDs = append(r.AttemptIDs, uuid.New())
		}
	}
	return r
}

func (w *worker) take(r work.ClaimRequest) work.ClaimResult {
	w.t.Helper()
	got, err := w.store.Claim(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// budget admits while failures, which count what was spent, are below n.
func budget(r work.ClaimRequest, n int) work.ClaimRequest {
	r.Admit = func(_ time.Time, h work.Health, room int) int { return min(room, n-h.Failures) }
	r.Spend = func(_ time.Time, h work.Health, taken int) work.Health {
		h.Failures += taken
		return h
	}
	return r
}

func TestClaimWithATicketTakesWhatIsAdmitted(t *testing.T) {
	d := testbed.DB(t)
	for _, name := range []string{"p", "q"} {
		d.Destination(t, name, "https://r.example/")
	}
	testbed.Exec(t, d, `SELECT whctl.enqueue(x, 't', 's' || n, '{}') FROM unnest('{p,q}'::text[]) x, generate_series(1, 9) n`)
	w := newWorker(t, d, "a")
	w.beat()
	due := survey(t, w.store)
	p, q := due[0].ID, due[1].ID
	var asOf time.Time
	r := asking(w, work.Ask{DestinationID: p, Room: 4, Lease: time.Minute, Ticket: true}, work.Ask{DestinationID: q, Room: 2, Lease: time.Minute})
	r.Admit = func(at time.Time, h work.Health, room int) int {
		asOf = at
		if h.DestinationID != p || room != 4 {
			t.Errorf("asked to admit %d to %+v", room, h)
		}
		return 3
	}
	r.Spend = func(at time.Time, h work.Health, taken int) work.Health {
		if !at.Equal(asOf) || h.DestinationID != p || taken != 3 {
			t.Errorf("spent %d of %+v", taken, h)
		}
		h.NextSlot = at.Add(1500 * time.Nanosecond)
		return h
	}
	got := w.take(r)
	counts := map[int64]int{}
	for _, c := range got.Claimed {
		counts[c.DestinationID]++
	}
	if counts[p] != 3 || counts[q] != 2 {
		t.Errorf("claimed %v", counts)
	}
	if len(got.Health) != 1 || !got.Health[0].NextSlot.Equal(asOf.Add(time.Microsecond)) {
		t.Errorf("health %+v, want the next slot of p to the microsecond", got.Health)
	}
	for _, x := range survey(t, w.store) {
		if x.ID == p && !x.Health.NextSlot.Equal(got.Health[0].NextSlot) || x.ID == q && !x.Health.NextSlot.IsZero() {
			t.Errorf("stored: %+v", x.Health)
		}
	}
	r.Admit = func(time.Time, work.Health, int) int { return -1 }
	r.Asks = r.Asks[:1]
	if got := w.take(r); len(got.Claimed) != 0 || len(got.Health) != 1 || got.Health[0].NextSlot.IsZero() {
		t.Errorf("with nothing admitted: %+v", got)
	}
}

// Two asks of one destination share what is admitted; what is only closed costs nothing.
func TestTicketsOfSuspects(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 't', 's' || n, '{}') FROM generate_series(1, 9) n`)
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	lostOnes := a.claim(2)
	expire(t, d)
	b.beat()
	id := lostOnes[0].DestinationID
	ask := func(room int, suspects bool) work.Ask {
		return work.Ask{DestinationID: id, Room: room, Lease: time.Minute, Suspects: suspects, Ticket: true}
	}
	got := b.take(budget(asking(b, ask(3, false)), 9))
	if len(got.Claimed) != 3 || got.Health[0].Failures != 1 {
		t.Errorf("claimed %d, spent %d; want two to be closed and one to be sent", len(got.Claimed), got.Health[0].Failures)
	}
	for _, c := range got.Claimed {
		if c.Lost {
			b.record(lost(c))
		}
	}
	got = b.take(budget(asking(b, ask(1, true), ask(5, false)), 4))
	suspects := 0
	for _, c := range got.Claimed {
		if c.Suspect {
			suspects++
		}
	}
	if len(got.Claimed) != 3 || suspects != 1 || got.Health[0].Failures != 4 {
		t.Errorf("claimed %d, of them %d suspects, spent %d; want 3, 1 and 4", len(got.Claimed), suspects, got.Health[0].Failures)
	}
}

func TestTicketOfADestinationThatAnotherHolds(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	d.Enqueue(t, "r", "s", `{}`)
	w := newWorker(t, d, "a")
	w.beat()
	id := survey(t, w.store)[0].ID
	tx, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM whctl.destination_health FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	r := budget(asking(w, work.Ask{DestinationID: id, Room: 1, Lease: time.Minute, Ticket: true}), 9)
	if got := w.take(r); len(got.Claimed) != 0 || len(got.Health) != 0 {
		t.Errorf("claimed %+v", got)
	}
	r.Asks[0].Ticket = false
	if got := w.take(r); len(got.Claimed) != 1 {
		t.Errorf("without a ticket: %+v", got)
	}
}

func TestClaimersTogetherTakeNoMoreThanIsAdmitted(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `SELECT whctl.enqueue('r', 't', 's' || n, '{}') FROM generate_series(1, 400) n`)
	var mu sync.Mutex
	total, served := 0, map[string]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		w := newWorkerOn(t, d, i)
		w.beat()
		id := survey(t, w.store)[0].ID
		wg.Go(func() {
			for spent := 0; spent < 100; { // who is turned away, by another that asks, asks again
				got, err := w.store.Claim(t.Context(), budget(asking(w, work.Ask{DestinationID: id, Room: 3, Lease: time.Minute, Ticket: true}), 100))
				if err != nil {
					t.Error(err)
					return
				}
				for _, h := range got.Health {
					spent = h.Failures
				}
				mu.Lock()
				total += len(got.Claimed)
				served[w.owner] += len(got.Claimed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if total != 100 {
		t.Errorf("claimed %d, want the 100 that were admitted: %v", total, served)
	}
	if n := testbed.QueryInt(t, d, `SELECT failures FROM whctl.destination_health`); n != 100 {
		t.Errorf("%d were spent", n)
	}
}

// What holds a destination back holds back asks without a ticket, and takeovers.
func TestGate(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	d.Enqueue(t, "r", "s", `{}`)
	w := newWorker(t, d, "a")
	w.beat()
	id := survey(t, w.store)[0].ID
	for _, c := range []struct {
		what, set string
		open      bool
	}{
		{"in order", `failures = 7, refusals = 4, refused_since = now(), next_slot = now() + interval '1 hour'`, true},
		{"paused", `paused_at = now(), paused_by = 'ana', paused_reason = 'why'`, false},
		{"circuit open", `openings = 1, open_until = now() + interval '1 hour'`, false},
		{"circuit half open", `openings = 1, open_until = now() - interval '1 hour'`, false},
		{"held by its receiver", `held_until = now() + interval '1 hour'`, false},
		{"was held by its receiver", `held_until = now() - interval '1 hour'`, true},
	} {
		for _, lease := range []string{"free", "lost"} {
			testbed.Exec(t, d, `UPDATE whctl.destination_health SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, openings = 0, open_until = NULL, held_until = NULL`)
			testbed.Exec(t, d, `UPDATE whctl.destination_health SET `+c.set)
			if lease == "free" {
				testbed.Exec(t, d, `UPDATE whctl.deliveries SET attempt_id = NULL, lease_owner = NULL, lease_expires_at = NULL, attempts = 0`)
			} else {
				testbed.Exec(t, d, `UPDATE whctl.deliveries SET attempt_id = gen_random_uuid(), lease_owner = 'z#1', lease_expires_at = now() - interval '1 second', attempts = 1, started_at = now()`)
			}
			r := asking(w, work.Ask{DestinationID: id, Room: 1, Lease: time.Minute})
			if got := w.take(r); (len(got.Claimed) == 1) != c.open {
				t.Errorf("%s, %s: claimed %d", c.what, lease, len(got.Claimed))
			}
			if c.open {
				continue
			}
			r.Asks[0].Ticket = true
			if got := w.take(budget(r, 99)); len(got.Claimed) != 1 {
				t.Errorf("%s, %s: claimed nothing with a ticket", c.what, lease)
			}
		}
	}
}

func TestClaimRefusesMoreRoomThanIDs(t *testing.T) {
	d := testbed.DB(t)
	w := newWorker(t, d, "a")
	w.beat()
	for what, asks := range map[string][]work.Ask{
		"more room than ids": {{DestinationID: 1, Room: 2}, {DestinationID: 2, Room: 2}},
		"too much":           {{DestinationID: 1, Room: 513}},
	} {
		r := asking(w, asks...)
		if len(asks) > 1 {
			r.AttemptIDs = r.AttemptIDs[:3]
		}
		if _, err := w.store.Claim(t.Context(), r); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// The gate looks at what is held, not at every destination.
func TestTheGateUsesItsIndex(t *testing.T) {
	d := testbed.DB(t)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) SELECT 'd' || n, 'https://r.example' FROM generate_series(1, 2000) n`)
	testbed.Exec(t, d, `ANALYZE whctl.destination_health`)
	plan := ""
	rows, err := d.Admin.QueryContext(t.Context(), `
EXPLAIN SELECT h.destination_id FROM whctl.destination_health h
WHERE (h.paused_at IS NOT NULL OR h.open_until IS NOT NULL OR h.held_until IS NOT NULL)
  AND (h.paused_at IS NOT NULL OR h.open_until IS NOT NULL OR h.held_until > now())`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan += line + "\n"
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if want := "destination_health_held"; !strings.Contains(plan, want) {
		t.Errorf("no %s in:\n%s", want, plan)
	}
}

// A worker that stands still in the middle of a claim (it was stopped, its link is gone)
// must not hold up the others for as long as it likes.
func TestAClaimThatStandsStillLetsGo(t *testing.T) {
	t.Parallel()
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	d.Enqueue(t, "r", "s", `{}`)
	a, b := newWorker(t, d, "a"), newWorker(t, d, "b")
	a.beat()
	id := survey(t, a.store)[0].ID
	claiming, goOn := make(chan struct{}), make(chan struct{})
	var stood sync.Once
	r := asking(a, work.Ask{DestinationID: id, Room: 1, Lease: time.Minute, Ticket: true})
	r.Admit = func(time.Time, work.Health, int) int {
		stood.Do(func() {
			close(claiming)
			<-goOn
		})
		return 1
	}
	r.Spend = func(_ time.Time, h work.Health, _ int) work.Health { return h }
	claimed := make(chan work.ClaimResult)
	go func() { claimed <- a.take(r) }()
	<-claiming
	began := time.Now()
	_, err := b.store.Judge(t.Context(), []work.Trial{{DestinationID: id}}, func(_ time.Time, h work.Health, _ work.Trial) work.Health { return h })
	if err != nil {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	close(goOn)
	if got := <-claimed; len(got.Claimed) != 1 {
		t.Errorf("who stood still claimed %+v afterwards", got)
	}
}
