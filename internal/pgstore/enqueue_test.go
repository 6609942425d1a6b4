package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Both ways into the database; that of many also without the hope that all is new.
func eachWay(t *testing.T, f func(t *testing.T, d *testbed.Database, p producer, n int)) {
	for _, way := range []struct {
		name   string
		n      int
		before bool
	}{
		{"parameters", 0, false}, {"copy", copied, false}, {"copy, not hopeful", copied, true},
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

// Nothing was there before, and yet not all can be put in.
func TestEnqueueExpiredAmongNew(t *testing.T) {
	eachWay(t, func(t *testing.T, d *testbed.Database, p producer, n int) {
		late := p.order("late")
		late.NotAfter = ptr(t, "2020-01-01T00:00:00Z")
		if got := results(p.enqueue(p.filled(n, p.order("a"), late, p.order("b"))...), 3); got != "enqueued expired enqueued" {
			t.Error(got)
		}
		if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.envelopes WHERE subject = 'late'`); n != 0 {
			t.Error("it was put in")
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
