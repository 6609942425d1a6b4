package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// Fewer orders than this go as parameters of the statement, more through COPY.
const copied = 51

// producer enqueues into destination r of d.
type producer struct {
	t           *testing.T
	store       *pgstore.Store
	destination int64
}

func newProducer(t *testing.T, d *testbed.Database, url string) producer {
	t.Helper()
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('r', 'https://r.example/') ON CONFLICT DO NOTHING`)
	p := producer{t: t, store: openURL(t, url)}
	found, err := p.store.NamedDestinations(t.Context(), []string{"r", "nowhere"})
	if err != nil || len(found) != 1 || found[0].Name != "r" || found[0].Policy != "default" {
		t.Fatalf("destinations %+v, %v", found, err)
	}
	p.destination = found[0].ID
	return p
}

// order is an order for subject whose payload is the same each time.
func (p producer) order(subject string) work.Order {
	return work.Order{
		DeliveryID: uuid.NewString(), Destination: "r", DestinationID: p.destination, EventType: "t", EventVersion: "1",
		Subject: subject, Payload: []byte(`{"of":"` + subject + `"}`),
	}
}

// filled is orders and as many others as it takes to make n.
func (p producer) filled(n int, orders ...work.Order) []work.Order {
	for i := len(orders); i < n; i++ {
		orders = append(orders, p.order(fmt.Sprintf("filler %d %s", i, uuid.NewString())))
	}
	return orders
}

func (p producer) enqueue(orders ...work.Order) []work.Receipt {
	p.t.Helper()
	receipts, err := p.store.Enqueue(p.t.Context(), orders)
	if err != nil {
		p.t.Fatal(err)
	}
	return receipts
}

// results are those of receipts, without the fillers' behind them.
func results(receipts []work.Receipt, n int) string {
	var words []string
	for _, r := range receipts[:n] {
		words = append(words, string(r.Result))
	}
	return strings.Join(words, " ")
}

func ptr(t *testing.T, text string) *time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return &at
}

// Both ways into the database, with hope (nothing was there before) and without.
func eachWay(t *testing.T, f func(t *testing.T, d *testbed.Database, p producer, n int)) {
	for _, way := range []struct {
		name   string
		n      int
		before bool
	}{
		{"parameters", 0, false}, {"parameters, not hopeful", 0, true}, {"copy", copied, false}, {"copy, not hopeful", copied, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			d := testbed.DB(t)
			p := newProducer(t, d, d.URL)
			if way.before {
				o := p.order("before")
				p.enqueue(o)
				p.enqueue(o)
			}
			f(t, d, p, way.n)
			testbed.Check(t, d)
		})
	}
}

func TestEnqueueResults(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		first := p.order("a")
		if got := p.enqueue(p.filled(n, first)...); got[0] != (work.Receipt{Result: work.Enqueued, DeliveryID: first.DeliveryID}) {
			t.Errorf("first: %+v", got[0])
		}
		again, other, taken, lost, late, lateAgain := p.order("a"), p.order("a"), p.order("b"), p.order("c"), p.order("d"), p.order("a")
		other.Payload = []byte(`[]`)
		taken.DeliveryID = first.DeliveryID
		lost.DestinationID++
		late.NotAfter = ptr(t, "2020-01-01T00:00:00Z")
		lateAgain.NotAfter = late.NotAfter
		new1 := p.order("e")
		got := p.enqueue(p.filled(n, again, other, taken, lost, late, lateAgain, new1)...)
		want := "duplicate conflict conflict unknown_destination expired duplicate enqueued"
		if r := results(got, 7); r != want {
			t.Errorf("results %s\nwant    %s", r, want)
		}
		for i, id := range []string{first.DeliveryID, first.DeliveryID, first.DeliveryID, "", "", first.DeliveryID, new1.DeliveryID} {
			if id != "" && got[i].DeliveryID != id || got[i].Taken != (i == 2) {
				t.Errorf("receipt %d: %+v", i, got[i])
			}
		}
		for _, filler := range got[7:] {
			if filler.Result != work.Enqueued {
				t.Fatalf("a filler: %+v", filler)
			}
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.envelopes WHERE subject IN ('b', 'c', 'd')`); n != 0 {
			t.Errorf("%d rows of orders that were kept out", n)
		}
	})
}

// Orders of one list may repeat each other: the first one wins.
func TestEnqueueRepeatsInOneList(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		first, same, other := p.order("a"), p.order("a"), p.order("a")
		other.Payload = []byte(`[]`)
		sameID, expired, valid := p.order("b"), p.order("c"), p.order("c")
		sameID.DeliveryID = first.DeliveryID
		expired.NotAfter = ptr(t, "2020-01-01T00:00:00Z")
		valid.DeliveryID = expired.DeliveryID
		got := p.enqueue(p.filled(n, expired, first, same, other, sameID, first, valid)...)
		// The one that has expired is there by the time that is looked: its event is a duplicate.
		if r, want := results(got, 7), "duplicate enqueued duplicate conflict conflict duplicate enqueued"; r != want {
			t.Errorf("results %s\nwant    %s", r, want)
		}
		if kept := testbed.QueryString(t, d, `SELECT convert_from(payload, 'UTF8') FROM whctl.envelopes WHERE subject = 'a'`); kept != `{"of":"a"}` {
			t.Errorf("kept %s, want the first", kept)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.envelopes e FULL JOIN whctl.deliveries d ON d.id = e.id WHERE d.id IS NULL OR e.id IS NULL`); n != 0 {
			t.Errorf("%d rows without their other half", n)
		}
	})
}

func TestEnqueueKeepsEveryByte(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		every := make([]byte, 0, 512)
		for i := range 256 {
			every = append(every, byte(i), '\\')
		}
		payloads := []string{
			"{\"b\":1.0,  \"a\":12345678901234567890,\"a\":2,\"u\":\"\\u00e9é\"}\n", "", "\x00", string(every), `\x00`, `\N`, `\.`, "\\.\n", "a\tb\rc\nd",
		}
		texts := []string{`\N`, "a\tb\nc\rd\\e\\\\f", `{"x",NULL}`, "ü😀'\"", "\\.", " ", `NULL`, "", "\u2028\x7f\x01"}
		var orders []work.Order
		for i, payload := range payloads {
			o := p.order(texts[i])
			o.Tenant, o.EventID, o.EventType, o.EventVersion = texts[i], texts[i], "t"+texts[i], "v"+texts[i]
			o.Payload, o.Body = []byte(payload), work.BodyRaw
			orders = append(orders, o)
		}
		p.enqueue(p.filled(n, orders...)...)
		for i, o := range orders {
			var got struct{ Subject, Tenant, EventID, EventType, EventVersion, Body, Payload string }
			if err := d.Admin.QueryRowContext(t.Context(), `SELECT subject, tenant, event_id, event_type, event_version, body, payload FROM whctl.envelopes WHERE delivery_id = $1`,
				o.DeliveryID).Scan(&got.Subject, &got.Tenant, &got.EventID, &got.EventType, &got.EventVersion, &got.Body, &got.Payload); err != nil {
				t.Fatal(err)
			}
			text := texts[i]
			if got.Subject != text || got.Tenant != text || got.EventID != text || got.EventType != "t"+text || got.EventVersion != "v"+text || got.Body != "raw" {
				t.Errorf("%q became %+v", text, got)
			}
			if got.Payload != payloads[i] {
				t.Errorf("payload %q became %q", payloads[i], got.Payload)
			}
		}
	})
}

// The database keeps microseconds and would round up, at the end of time over its end.
func TestEnqueueTimes(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		o, plain := p.order("a"), p.order("b")
		o.EventAt = ptr(t, "0001-01-01T00:00:00Z")
		o.NotBefore = ptr(t, "9999-12-31T23:59:59.9999998Z")
		o.NotAfter = ptr(t, "9999-12-31T23:59:59.9999999Z")
		if got := results(p.enqueue(p.filled(n, o, plain)...), 2); got != "enqueued enqueued" {
			t.Fatal(got)
		}
		const times = `SELECT concat_ws(' ', extract(year FROM e.event_at), e.not_after, d.next_attempt_at) FROM whctl.envelopes e JOIN whctl.deliveries d ON d.id = e.id WHERE e.subject = $1`
		if got, want := testbed.QueryString(t, d, times, "a"), "1 9999-12-31 23:59:59.999999+00 9999-12-31 23:59:59.999999+00"; got != want {
			t.Errorf("times %s, want %s", got, want)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.envelopes e JOIN whctl.deliveries d ON d.id = e.id WHERE e.subject = 'b' AND e.event_at = d.next_attempt_at AND e.event_at = e.created_at AND e.not_after IS NULL AND e.body IS NULL`); n != 1 {
			t.Error("without times it is due at once, and the event is of now")
		}
	})
}

// Deliveries of one list go out in its order.
func TestEnqueueKeepsTheOrderOfTheList(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		orders := p.filled(max(n, 40))
		p.enqueue(orders...)
		var got []string
		if err := d.Admin.SelectContext(t.Context(), &got, `SELECT e.delivery_id FROM whctl.deliveries d JOIN whctl.envelopes e ON e.id = d.id WHERE e.subject LIKE 'filler%' ORDER BY d.next_attempt_at, d.id`); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, orders, func(id string, o work.Order) bool { return id == o.DeliveryID }) {
			t.Error("another order")
		}
	})
}

// H43: row ids are bigint everywhere on the way.
func TestEnqueuePastTwoThousandMillion(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		testbed.Exec(t, d, `DO $$ DECLARE s text; BEGIN
			FOR s IN SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences WHERE schemaname = 'whctl' LOOP
				EXECUTE 'ALTER SEQUENCE ' || s || ' RESTART 2147483700';
			END LOOP; END $$`)
		testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('far', 'https://far.example/')`)
		o := p.order("a")
		o.Destination = "far"
		found, err := p.store.NamedDestinations(t.Context(), []string{"far"})
		if err != nil {
			t.Fatal(err)
		}
		o.DestinationID = found[0].ID
		if got := results(p.enqueue(p.filled(n, o)...), 1); got != "enqueued" {
			t.Error(got)
		}
		if id := testbed.QueryInt(t, d, `SELECT d.id FROM whctl.deliveries d JOIN whctl.destinations x ON x.id = d.destination_id WHERE x.name = 'far'`); id < 2147483700 {
			t.Errorf("row id %d", id)
		}
	})
}

// Several producers with the same events: each event gets in once, and is counted once.
func TestEnqueueAtTheSameTime(t *testing.T) {
	for _, n := range []int{40, 400} {
		d := testbed.DB(t)
		orders := newProducer(t, d, d.URL).filled(n)
		backwards := slices.Clone(orders)
		slices.Reverse(backwards) // so that they wait for each other in a circle
		var mu sync.Mutex
		counts := map[work.EnqueueResult]int{}
		var wg sync.WaitGroup
		for i := range 4 {
			p := newProducer(t, d, d.URL)
			list := [][]work.Order{orders, backwards}[i%2]
			wg.Go(func() {
				receipts, err := p.store.Enqueue(t.Context(), list)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range receipts {
					counts[r.Result]++
				}
			})
		}
		wg.Wait()
		if counts[work.Enqueued] != n || counts[work.Duplicate] != 3*n {
			t.Errorf("of %d events by four: %v", n, counts)
		}
		testbed.Check(t, d)
	}
}

// An unanswered COMMIT is asked for: what it stored is enqueued, no duplicate; what it
// did not store is put in again.
func TestEnqueueWithAnUnansweredCommit(t *testing.T) {
	for _, n := range []int{3, copied} {
		for name, cut := range map[string]func(*testbed.Link) *testbed.Cut{
			"stored":     func(l *testbed.Link) *testbed.Cut { return l.CutAfterAnswer(testbed.Says("COMMIT")) },
			"not stored": func(l *testbed.Link) *testbed.Cut { return l.CutBefore(testbed.Says("COMMIT")) },
		} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				d := testbed.DB(t)
				link := testbed.Proxy(t, d.URL)
				p := newProducer(t, d, link.URL(d.URL))
				p.enqueue(p.order("before"))
				orders := append(p.filled(n-1), p.order("before"))
				c := cut(link)
				got := p.enqueue(orders...)
				testbed.Await(t, "the cut", c.Done)
				if r, want := results(got, n), strings.Repeat("enqueued ", n-1)+"duplicate"; r != want {
					t.Errorf("results %s", r)
				}
				if rows := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); rows != int64(n) {
					t.Errorf("%d rows, want %d", rows, n)
				}
				testbed.Check(t, d)
			})
		}
	}
}

// A destination that is being removed: the enqueue waits, and finds it gone.
func TestEnqueueIntoADestinationThatGoes(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('s', 'https://s.example/')`)
		found, err := p.store.NamedDestinations(t.Context(), []string{"s"})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := d.Admin.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), `DELETE FROM whctl.destinations WHERE name = 's'`); err != nil {
			t.Fatal(err)
		}
		o := p.order("a")
		o.Destination, o.DestinationID = "s", found[0].ID
		done := make(chan []work.Receipt, 1)
		go func() { done <- p.enqueue(p.filled(n, o)...) }()
		awaitLockWaiter(t, d)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := testbed.Await(t, "the enqueue", done); got[0].Result != work.UnknownDestination {
			t.Errorf("%+v", got[0])
		}
	})
}

// And the other way round: what was put in keeps the destination.
func TestEnqueueKeepsItsDestination(t *testing.T) {
	d := testbed.DB(t)
	p := newProducer(t, d, d.URL)
	remover := open(t, d)
	type answer struct {
		removed bool
		err     error
	}
	done := make(chan answer, 1)
	err := p.store.EnqueueAll(t.Context(), func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
		if _, err := put([]work.Order{p.order("a")}); err != nil {
			return false, err
		}
		go func() {
			removed, _, err := remover.RemoveDestination(t.Context(), "r")
			done <- answer{removed, err}
		}()
		awaitLockWaiter(t, d)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := testbed.Await(t, "the removal", done); got.removed || got.err != nil {
		t.Errorf("removed %v, %v", got.removed, got.err)
	}
}

// What only the database knows to be wrong is an error of its own kind, and keeps
// nothing.
func TestEnqueueRefusedContent(t *testing.T) {
	for name, rule := range map[string]string{
		"constraint": `ALTER TABLE whctl.envelopes ADD CHECK (subject <> 'bad')`,
		"trigger": `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
			CREATE TRIGGER no BEFORE INSERT ON whctl.envelopes FOR EACH ROW WHEN (NEW.subject = 'bad') EXECUTE FUNCTION no()`,
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
				testbed.Exec(t, d, rule)
				before := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`)
				_, err := p.store.Enqueue(t.Context(), p.filled(n, p.order("bad"), p.order("good")))
				if !errors.Is(err, work.ErrData) {
					t.Errorf("%v, want work.ErrData", err)
				}
				if after := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); after != before {
					t.Errorf("%d rows were kept", after-before)
				}
			})
		})
	}
}

// An order that is kept out by something that nobody can see is no conflict: it is an
// error, so that nothing is lost without a word.
func TestEnqueueKeptOutByNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		testbed.Exec(t, d, `CREATE FUNCTION ghost() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
			CREATE TRIGGER ghost BEFORE INSERT ON whctl.envelopes FOR EACH ROW WHEN (NEW.subject = 'ghost') EXECUTE FUNCTION ghost()`)
		_, err := p.store.Enqueue(t.Context(), p.filled(n, p.order("ghost")))
		if err == nil || !strings.Contains(err.Error(), "has just been removed") {
			t.Errorf("%v", err)
		}
	})
}

func TestEnqueueAll(t *testing.T) {
	d := testbed.DB(t)
	p := newProducer(t, d, d.URL)
	twice := p.order("twice")
	lists := [][]work.Order{p.filled(copied, twice), p.filled(2, p.order("twice")), p.filled(copied + 10)}
	all := func(keep bool, failure error) string {
		var words []string
		err := p.store.EnqueueAll(t.Context(), func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
			for _, list := range lists {
				receipts, err := put(list)
				if err != nil {
					return false, err
				}
				words = append(words, string(receipts[0].Result))
			}
			return keep, failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
		return strings.Join(words, " ")
	}
	rows := func(want int) {
		t.Helper()
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); n != int64(want) {
			t.Errorf("%d rows, want %d", n, want)
		}
	}
	own := errors.New("own")
	for range 2 {
		if got := all(false, nil) + " " + all(true, own); got != "enqueued duplicate enqueued enqueued duplicate enqueued" {
			t.Error(got)
		}
		rows(0)
	}
	if got := all(true, nil); got != "enqueued duplicate enqueued" {
		t.Error(got)
	}
	rows(2*copied + 11)
	if got := all(true, nil); got != "duplicate duplicate duplicate" {
		t.Error(got)
	}
	rows(2*copied + 11)
	testbed.Check(t, d)
}

func TestEnqueueAllWithAnUnansweredCommit(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(*testbed.Link) *testbed.Cut
		kept int64
	}{
		"stored":     {func(l *testbed.Link) *testbed.Cut { return l.CutAfterAnswer(testbed.Says("COMMIT")) }, 1},
		"not stored": {func(l *testbed.Link) *testbed.Cut { return l.CutBefore(testbed.Says("COMMIT")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := testbed.DB(t)
			link := testbed.Proxy(t, d.URL)
			p := newProducer(t, d, link.URL(d.URL))
			cut := c.cut(link)
			err := p.store.EnqueueAll(t.Context(), func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
				_, err := put([]work.Order{p.order("a")})
				return true, err
			})
			testbed.Await(t, "the cut", cut.Done)
			if (err == nil) != (c.kept == 1) || err != nil && !errors.Is(err, work.ErrUnreachable) {
				t.Errorf("%v", err)
			}
			if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.deliveries`); n != c.kept {
				t.Errorf("%d rows, want %d", n, c.kept)
			}
		})
	}
}

// Behind a pooler in transaction mode nothing may be left in the session.
func TestEnqueueThroughAPooler(t *testing.T) {
	d := testbed.DB(t)
	pool := testbed.Pooler(t, d, 1)
	p := newProducer(t, d, pool.URL)
	for i := range 3 {
		for _, n := range []int{3, copied} {
			if got := p.enqueue(p.filled(n)...); got[n-1].Result != work.Enqueued {
				t.Errorf("round %d of %d: %+v", i, n, got[n-1])
			}
		}
	}
	testbed.Check(t, d)
}

func TestEnqueueInAnotherSchema(t *testing.T) {
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
	p := producer{t: t, store: s, destination: 1}
	for _, n := range []int{3, copied} {
		orders := p.filled(n)
		if got := results(p.enqueue(orders...), 2) + " " + results(p.enqueue(orders...), 2); got != "enqueued enqueued duplicate duplicate" {
			t.Error(got)
		}
	}
	if may, err := s.MayEnqueue(t.Context()); !may || err != nil {
		t.Errorf("may enqueue: %v, %v", may, err)
	}
	if r, err := s.EnqueueByFunction(t.Context(), p.order("f")); err != nil || r.Result != work.Enqueued {
		t.Errorf("by the function: %+v, %v", r, err)
	}
}

func TestWhoMayEnqueue(t *testing.T) {
	d := testbed.DB(t)
	p := newProducer(t, d, d.URL)
	for group, want := range map[string]bool{"whctl_producer": false, "whctl_worker": true, "whctl_operator": true, "whctl_reader": false} {
		_, url := d.Login(t, group)
		own := producer{t: t, store: openURL(t, url), destination: p.destination}
		if may, err := own.store.MayEnqueue(t.Context()); may != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", group, may, err, want)
		}
		for _, n := range []int{1, copied} {
			_, err := own.store.Enqueue(t.Context(), own.filled(n))
			if want && err != nil || !want && !errors.Is(err, work.ErrGrant) {
				t.Errorf("%s: %v", group, err)
			}
		}
		r, err := own.store.EnqueueByFunction(t.Context(), own.order(group))
		if group == "whctl_reader" {
			if !errors.Is(err, work.ErrGrant) {
				t.Errorf("%s by the function: %v", group, err)
			}
		} else if err != nil || r.Result != work.Enqueued {
			t.Errorf("%s by the function: %+v, %v", group, r, err)
		}
	}
}

func TestEnqueueByFunction(t *testing.T) {
	d := testbed.DB(t)
	link := testbed.Proxy(t, d.URL)
	p := newProducer(t, d, link.URL(d.URL))
	first := p.order("a")
	first.EventAt, first.NotBefore, first.NotAfter = ptr(t, "0001-01-01T00:00:00Z"), ptr(t, "2026-01-01T00:00:00Z"), ptr(t, "9999-12-31T23:59:59.9999999Z")
	other, taken, nowhere, late, big := p.order("a"), p.order("b"), p.order("c"), p.order("d"), p.order("e")
	other.Payload = []byte("[]")
	taken.DeliveryID = first.DeliveryID
	nowhere.Destination = "nowhere"
	late.NotAfter = ptr(t, "2020-01-01T00:00:00Z")
	big.Payload = make([]byte, 256<<10+1)
	cut := link.CutAfterAnswer(testbed.Says("COMMIT"))
	for i, c := range []struct {
		order work.Order
		want  work.Receipt
		err   error
	}{
		{first, work.Receipt{Result: work.Enqueued, DeliveryID: first.DeliveryID}, nil}, // its COMMIT is not answered
		{first, work.Receipt{Result: work.Duplicate, DeliveryID: first.DeliveryID}, nil},
		{p.order("a"), work.Receipt{Result: work.Duplicate, DeliveryID: first.DeliveryID}, nil},
		{other, work.Receipt{Result: work.Conflict, DeliveryID: first.DeliveryID}, nil},
		{taken, work.Receipt{Result: work.Conflict, DeliveryID: first.DeliveryID, Taken: true}, nil},
		{nowhere, work.Receipt{Result: work.UnknownDestination}, nil},
		{late, work.Receipt{}, work.ErrData},
		{big, work.Receipt{}, work.ErrData},
	} {
		got, err := p.store.EnqueueByFunction(t.Context(), c.order)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d: %+v, %v; want %+v, %v", i, got, err, c.want, c.err)
		}
	}
	testbed.Await(t, "the cut", cut.Done)
	if got, want := testbed.QueryString(t, d, `SELECT concat_ws(' ', extract(year FROM e.event_at), d.next_attempt_at, e.not_after, (SELECT count(*) FROM whctl.deliveries))
		FROM whctl.envelopes e JOIN whctl.deliveries d ON d.id = e.id`), "1 2026-01-01 00:00:00+00 9999-12-31 23:59:59.999999+00 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	testbed.Check(t, d)
}
