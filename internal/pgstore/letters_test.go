package pgstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// grave is a dead letter put in by hand.
type grave struct {
	id, destination, tenant, eventType string
	class                              work.Class
	status                             int
	died                               string
}

func bury(t *testing.T, d *testbed.Database, graves ...grave) {
	t.Helper()
	for _, g := range graves {
		testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ($1, 'https://r.example/') ON CONFLICT DO NOTHING`, g.destination)
		testbed.Plant(t, d, `
WITH e AS (
  INSERT INTO whctl.envelopes (event_at, delivery_id, destination, tenant, subject, event_type, event_version, payload)
  VALUES (now(), $1, $2, $3, $1, $4, '1', '{}') RETURNING id)
INSERT INTO whctl.deliveries (id, destination_id, state, finished_at, attempts, class, status, reason, fingerprint)
SELECT e.id, x.id, 2, CAST($7 AS timestamptz), 3, $5, nullif($6, 0), 1, 'f' FROM e, whctl.destinations x WHERE x.name = $2`,
			g.id, g.destination, g.tenant, g.eventType, g.class.Code(), g.status, g.died)
	}
}

func ids(letters []work.Letter) []string {
	var out []string
	for _, l := range letters {
		out = append(out, l.DeliveryID)
	}
	return out
}

func TestDeadLettersFilter(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	const at = "2026-11-01 10:00:00+00"
	bury(t, d,
		grave{"d1", "a", "acme_1", "e.one", work.Rejected, 400, at},
		grave{"d2", "a", "acmeX1", "e.two", work.Timeout, 0, at},
		grave{"d3", "b", "acme%", "e.one", work.Unavailable, 503, at},
		grave{"d4", "b", "acmeZ", "e.two", work.Unavailable, 500, at},
		grave{"d5", "b", "", "e.one", work.Rejected, 404, at},
		grave{"d6", "b", `a,b"{}\`, "e.one", work.Rejected, 404, at})
	cases := []struct {
		name   string
		filter work.LetterFilter
		want   []string
	}{
		{"none", work.LetterFilter{}, []string{"d1", "d2", "d3", "d4", "d5", "d6"}},
		{"an underscore is no wildcard", work.LetterFilter{Tenants: []string{"acme_1"}}, []string{"d1"}},
		{"a percent sign is no wildcard", work.LetterFilter{Tenants: []string{"acme%"}}, []string{"d3"}},
		{"the empty tenant is a tenant", work.LetterFilter{Tenants: []string{""}}, []string{"d5"}},
		{"quotes, commas and braces", work.LetterFilter{Tenants: []string{`a,b"{}\`}}, []string{"d6"}},
		{"alternatives", work.LetterFilter{Tenants: []string{"acmeZ", "acmeX1"}}, []string{"d2", "d4"}},
		{"destination", work.LetterFilter{Destinations: []string{"a"}}, []string{"d1", "d2"}},
		{"unknown destination", work.LetterFilter{Destinations: []string{"nowhere"}}, nil},
		{"event type", work.LetterFilter{EventTypes: []string{"e.two"}}, []string{"d2", "d4"}},
		{"class", work.LetterFilter{Classes: []work.Class{work.Unavailable, work.Timeout}}, []string{"d2", "d3", "d4"}},
		{"status", work.LetterFilter{Statuses: []int{503, 404}}, []string{"d3", "d5", "d6"}},
		{"all must fit", work.LetterFilter{Destinations: []string{"b"}, Classes: []work.Class{work.Unavailable}, Statuses: []int{500}}, []string{"d4"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			q := work.LetterQuery{Filter: c.filter, Limit: 10}
			got, err := s.DeadLetters(t.Context(), q)
			if err != nil || !slices.Equal(ids(got), c.want) {
				t.Errorf("%v, %v, want %v", ids(got), err, c.want)
			}
			if n, err := s.CountDeadLetters(t.Context(), q); err != nil || n != int64(len(c.want)) {
				t.Errorf("counted %d, %v, want %d", n, err, len(c.want))
			}
		})
	}
}

func TestDeadLettersRow(t *testing.T) {
	d, id, a, _ := fixture(t)
	a.record(dead(a.one()))
	got, err := a.store.DeadLetters(t.Context(), work.LetterQuery{Limit: 1})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	l := got[0]
	if l.DiedAt.IsZero() || l.EventAt.IsZero() {
		t.Errorf("times: %+v", l)
	}
	version := testbed.QueryString(t, d, `SELECT event_version FROM whctl.envelopes`)
	l.DiedAt, l.EventAt = time.Time{}, time.Time{}
	want := work.Letter{
		DeliveryID: id, Destination: "r", Subject: "E-1", EventType: "test.happened", EventVersion: version, Class: work.Rejected,
		Status: 400, Reason: work.ReasonPermanent, Fingerprint: "f", Attempts: 1, Generation: 1, PayloadBytes: 2,
	}
	if l != want {
		t.Errorf("got  %+v\nwant %+v", l, want)
	}
}

// Pages go on exactly behind each other, also among rows of the same instant, and when
// the last row of a page is dead no more or gone altogether.
func TestDeadLettersPages(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	var graves []grave
	for i := range 9 {
		graves = append(graves, grave{fmt.Sprintf("d%d", 9-i), "a", "", "e", work.Rejected, 400, fmt.Sprintf("2026-11-01 10:00:0%d.123456+00", i/3)})
	}
	bury(t, d, graves...)
	after := func(l work.Letter) work.LetterPlace {
		return work.LetterPlace{DiedAt: l.DiedAt, DeliveryID: l.DeliveryID}
	}
	page := func(at work.LetterPlace) []work.Letter {
		t.Helper()
		got, err := s.DeadLetters(t.Context(), work.LetterQuery{After: at, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var seen []string
	var place work.LetterPlace
	for got := page(place); len(got) > 0; got = page(place) {
		seen = append(seen, ids(got)...)
		place = after(got[len(got)-1])
	}
	if want := []string{"d9", "d8", "d7", "d6", "d5", "d4", "d3", "d2", "d1"}; !slices.Equal(seen, want) {
		t.Errorf("pages: %v, want %v", seen, want)
	}

	second := work.LetterPlace{DiedAt: time.Date(2026, 11, 1, 10, 0, 0, 123_456_000, time.UTC), DeliveryID: "d8"}
	testbed.Exec(t, d, `UPDATE whctl.deliveries d SET state = 4, reason = 9 FROM whctl.envelopes e WHERE e.id = d.id AND e.delivery_id = 'd8'`)
	if got := ids(page(second)); !slices.Equal(got, []string{"d7", "d6"}) {
		t.Errorf("behind a row that was discarded: %v", got)
	}
	testbed.Exec(t, d, `DELETE FROM whctl.deliveries d USING whctl.envelopes e WHERE e.id = d.id AND e.delivery_id = 'd8'`)
	testbed.Exec(t, d, `DELETE FROM whctl.envelopes e WHERE e.delivery_id = 'd8'`)
	if got := ids(page(second)); !slices.Equal(got, []string{"d9", "d7"}) {
		t.Errorf("behind a row that was swept (rather twice than never): %v", got)
	}
}

// A page is read from the index of deaths: the rows before and behind it cost nothing.
func TestDeadLettersReadNoMoreThanTheirPage(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	bury(t, d, grave{"first", "a", "", "e", work.Rejected, 400, "2026-11-01 09:00:00+00"})
	const rows = 20_000
	testbed.Plant(t, d, `
WITH e AS (
  INSERT INTO whctl.envelopes (event_at, delivery_id, destination, subject, event_type, event_version, payload)
  SELECT now(), 'n' || n, 'a', 's' || n, 'e', '1', '{}' FROM generate_series(1, $1::int) n RETURNING id)
INSERT INTO whctl.deliveries (id, destination_id, state, finished_at, attempts, class, status, reason)
SELECT e.id, 1, 2, timestamptz '2026-11-01 10:00:00+00' + e.id * interval '1 second', 1, 14, 400, 1 FROM e`, rows)
	testbed.Exec(t, d, `ANALYZE whctl.deliveries, whctl.envelopes`)
	fetched := func() int64 {
		testbed.Exec(t, d, `SELECT pg_stat_force_next_flush()`)
		return testbed.QueryInt(t, d, `
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE schemaname = 'whctl' AND relname = 'deliveries'`)
	}
	before := fetched()
	middle, err := s.DeadLetters(t.Context(), work.LetterQuery{
		After: work.LetterPlace{DiedAt: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), DeliveryID: "n7000"}, Limit: 100,
	})
	if err != nil || len(middle) != 100 {
		t.Fatalf("%d rows, %v", len(middle), err)
	}
	if err := s.Close(); err != nil { // a session that ends tells its counts
		t.Fatal(err)
	}
	if n := fetched() - before; n > 1000 {
		t.Errorf("a page of 100 read %d rows", n)
	}
}
