package pgstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func full(name string) work.Destination {
	return work.Destination{
		Name: name, URL: "https://r.example/" + name, Policy: "slow", Key: "k", MaxInFlight: 3, Rate: "5/s",
		Headers: map[string]work.Reference{"X-A": {Env: "A"}, "X-B": {File: "/b"}}, Tenants: []string{"t,1", `t"2`},
		Body: work.BodyRaw, PayloadMax: 1000,
	}
}

func plain(name string) work.Destination {
	return work.Destination{Name: name, URL: "https://r.example/", Policy: "default", Body: work.BodyEnvelope, PayloadMax: 262144}
}

// summary is changes as "name action field,field".
func summary(changes []work.DestinationChange) string {
	var parts []string
	for _, c := range changes {
		var fields []string
		for _, f := range c.Fields {
			fields = append(fields, f.Field)
		}
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Name, c.Action, strings.Join(fields, ","))))
	}
	return strings.Join(parts, "; ")
}

func apply(t *testing.T, s *pgstore.Store, prune bool, wanted ...work.Destination) string {
	t.Helper()
	changes, err := s.ApplyDestinations(t.Context(), wanted, prune)
	if err != nil {
		t.Fatal(err)
	}
	return summary(changes)
}

func TestApplyDestinationsIsIdempotent(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	want := "a created url,policy,body,payload_max; b created url,policy,key,max_in_flight,rate,headers,tenants,body,payload_max"
	if got := apply(t, s, false, full("b"), plain("a")); got != want {
		t.Errorf("first: %s", got)
	}
	before := testbed.QueryString(t, d, `SELECT string_agg(updated_at::text || xmin::text, ',') FROM whctl.destinations`)
	if got := apply(t, s, false, full("b"), plain("a")); got != "a unchanged; b unchanged" {
		t.Errorf("again: %s", got)
	}
	if after := testbed.QueryString(t, d, `SELECT string_agg(updated_at::text || xmin::text, ',') FROM whctl.destinations`); after != before {
		t.Error("applying the same again wrote rows")
	}
	changed := full("b")
	changed.Rate, changed.Headers = "", map[string]work.Reference{"X-A": {Env: "C"}}
	if got := apply(t, s, false, changed); got != "b changed rate,headers" {
		t.Errorf("changed: %s", got)
	}
	list, err := s.Destinations(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Rate != "" || list[1].Headers["X-A"].Env != "C" || !slices.Equal(list[1].Tenants, []string{"t,1", `t"2`}) {
		t.Errorf("list: %+v, %v", list, err)
	}
	if !list[1].UpdatedAt.After(list[1].CreatedAt) {
		t.Error("updated_at did not move")
	}
}

// All or nothing: the second destination cannot be stored, so the first is not either.
func TestApplyDestinationsInOneTransaction(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	bad := plain("b")
	bad.Body = "nonsense"
	if _, err := s.ApplyDestinations(t.Context(), []work.Destination{plain("a"), bad}, false); err == nil {
		t.Fatal("a body that the schema refuses was taken")
	}
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.destinations`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// A row whose headers somebody put in by hand is mended, not an obstacle.
func TestApplyDestinationsReplacesUnreadableHeaders(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url, headers, body, payload_max) VALUES ('a', 'https://r.example/', '{"X-Token": "literal"}', 'envelope', 262144)`)
	if got := apply(t, s, false, plain("a")); got != "a changed headers" {
		t.Errorf("%s", got)
	}
	if _, err := s.Destinations(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	for _, name := range []string{"delivered", "scheduled", "leased", "dead", "unused"} {
		d.Destination(t, name, "https://r.example/")
	}
	w := newWorker(t, d, "w")
	for _, name := range []string{"delivered", "dead", "leased"} {
		d.Enqueue(t, name, "E-1", `{}`)
	}
	for _, c := range w.claim(1) {
		switch c.Envelope.Destination {
		case "delivered":
			w.record(delivered(c))
		case "dead":
			w.record(dead(c))
		}
	}
	d.Enqueue(t, "scheduled", "E-1", `{}`)
	want := "a created url,policy,body,payload_max; dead kept; delivered removed; leased kept; scheduled kept; unused removed"
	if got := apply(t, s, true, plain("a")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := testbed.QueryString(t, d, `SELECT string_agg(name, ',' ORDER BY name) FROM whctl.destinations`); got != "a,dead,leased,scheduled" {
		t.Errorf("left: %s", got)
	}
}

func TestRemoveDestination(t *testing.T) {
	d, id, a, _ := fixture(t)
	removed, load, err := a.store.RemoveDestination(t.Context(), "r")
	if err != nil || removed || load != (work.DestinationLoad{Scheduled: 1, Due: 1}) {
		t.Errorf("scheduled: %v, %+v, %v", removed, load, err)
	}
	c := a.one()
	removed, load, err = a.store.RemoveDestination(t.Context(), "r")
	if err != nil || removed || load != (work.DestinationLoad{InFlight: 1}) {
		t.Errorf("leased: %v, %+v, %v", removed, load, err)
	}
	a.record(delivered(c))
	if removed, _, err := a.store.RemoveDestination(t.Context(), "r"); err != nil || !removed {
		t.Errorf("delivered: %v, %v", removed, err)
	}
	if got := state(t, d, id); got != "delivered" {
		t.Errorf("the delivery is %s", got)
	}
	if _, _, err := a.store.RemoveDestination(t.Context(), "r"); !errors.Is(err, work.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
}

// An enqueue that is committed while a removal waits for it keeps the destination.
func TestRemoveDestinationWaitsForAnEnqueue(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	s := open(t, d)
	tx, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT whctl.enqueue('r', 'e', 's', '{}')`); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		removed bool
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		removed, _, err := s.RemoveDestination(t.Context(), "r")
		done <- answer{removed, err}
	}()
	awaitLockWaiter(t, d)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := testbed.Await(t, "the removal", done); got.removed || got.err != nil {
		t.Errorf("removed %v, %v", got.removed, got.err)
	}
}

// What is counted is counted without the lock that an enqueue would have to wait for.
func TestRemovalDoesNotHoldUpEnqueuesWhileItCounts(t *testing.T) {
	for name, act := range map[string]func(*testing.T, *pgstore.Store) error{
		"remove": func(t *testing.T, s *pgstore.Store) error {
			_, _, err := s.RemoveDestination(t.Context(), "r")
			return err
		},
		"prune": func(t *testing.T, s *pgstore.Store) error {
			_, err := s.ApplyDestinations(t.Context(), nil, true)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := testbed.DB(t)
			d.Destination(t, "r", "https://r.example/")
			d.Enqueue(t, "r", "first", `{}`)
			link := testbed.Proxy(t, d.URL)
			s := openURL(t, link.URL(d.URL))
			counts := 0
			var held []error
			link.CutBefore(func(request []byte) bool { // never; it looks at what a request finds
				if bytes.Contains(request, []byte("count(*)")) {
					counts++
					_, err := d.Admin.ExecContext(t.Context(), `SELECT FROM whctl.destinations FOR KEY SHARE NOWAIT`)
					held = append(held, err)
				}
				return false
			})
			if err := act(t, s); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(held...); err != nil || counts == 0 {
				t.Errorf("an enqueue during one of %d counts: %v", counts, err)
			}
		})
	}
}

// An enqueue that names two destinations may hold the one and want the other: a prune
// that waited for it while holding the other would never end.
func TestPruneWaitsForNobody(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	for _, name := range []string{"a", "b", "c"} {
		d.Destination(t, name, "https://r.example/")
	}
	tx, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT whctl.enqueue('b', 'e', 's', '{}')`); err != nil {
		t.Fatal(err)
	}
	if got := apply(t, s, true); got != "a removed; b kept; c removed" {
		t.Errorf("%s", got)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	changes, err := s.ApplyDestinations(t.Context(), nil, true)
	if want := (work.DestinationLoad{Scheduled: 1, Due: 1}); err != nil || summary(changes) != "b kept" || changes[0].Load != want {
		t.Errorf("%+v, %v", changes, err)
	}
}

// awaitLockWaiter waits until a session of the database waits for a lock. The server
// answers each question in its time, so that nothing is slept on.
func awaitLockWaiter(t *testing.T, d *testbed.Database) {
	t.Helper()
	for {
		if testbed.QueryInt(t, d, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0 {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("nobody waits for a lock")
		}
	}
}

// A destination that another session is about to commit is found, not inserted twice.
func TestApplyDestinationsWaitsForAnother(t *testing.T) {
	d := testbed.DB(t)
	s := open(t, d)
	tx, err := d.Admin.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO whctl.destinations (name, url) VALUES ('a', 'https://other.example/')`); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		changes []work.DestinationChange
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		changes, err := s.ApplyDestinations(t.Context(), []work.Destination{plain("a")}, false)
		done <- answer{changes, err}
	}()
	awaitLockWaiter(t, d)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	got := testbed.Await(t, "the apply", done)
	if s := summary(got.changes); got.err != nil || s != "a changed url,body,payload_max" {
		t.Errorf("%s, %v", s, got.err)
	}
}

// When COMMIT is not answered, the report is still that of what was done.
func TestApplyDestinationsOverACutLink(t *testing.T) {
	d := testbed.DB(t)
	link := testbed.Proxy(t, d.URL)
	s := openURL(t, link.URL(d.URL))
	cut := link.CutAfterAnswer(testbed.Says("COMMIT"))
	if got := apply(t, s, false, plain("a")); got != "a created url,policy,body,payload_max" {
		t.Errorf("%s", got)
	}
	testbed.Await(t, "the cut", cut.Done)
}

func TestDestinationCountsItsWork(t *testing.T) {
	d, _, a, _ := fixture(t)
	for i := range 5 {
		d.Enqueue(t, "r", fmt.Sprintf("E-1%d", i), `{}`)
	}
	got := a.claim(3)
	a.record(dead(got[0]))
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET lease_expires_at = now() - interval '1 second' WHERE id = $1`, got[1].ID)
	testbed.Exec(t, d, `UPDATE whctl.deliveries SET next_attempt_at = now() + interval '1 hour'
WHERE id = (SELECT min(id) FROM whctl.deliveries WHERE state = 0 AND attempt_id IS NULL)`)
	_, load, err := a.store.Destination(t.Context(), "r")
	if want := (work.DestinationLoad{Scheduled: 3, Due: 2, InFlight: 1, Stuck: 1, Dead: 1}); err != nil || load != want {
		t.Errorf("%+v, %v, want %+v", load, err, want)
	}
}

func TestCompletionWords(t *testing.T) {
	d, id, a, _ := fixture(t)
	d.Destination(t, "rest", "https://r.example/")
	d.Destination(t, "other", "https://r.example/")
	if got, err := a.store.DestinationNames(t.Context(), "r", 10); err != nil || !slices.Equal(got, []string{"r", "rest"}) {
		t.Errorf("names: %v, %v", got, err)
	}
	if got, err := a.store.DeliveryIDs(t.Context(), id[:8], true, 10); err != nil || !slices.Equal(got, []string{id}) {
		t.Errorf("scheduled ids: %v, %v", got, err)
	}
	a.one()
	if got, err := a.store.DeliveryIDs(t.Context(), "", true, 10); err != nil || len(got) != 0 {
		t.Errorf("scheduled ids of a leased one: %v, %v", got, err)
	}
	if got, err := a.store.DeliveryIDs(t.Context(), "", false, 10); err != nil || !slices.Equal(got, []string{id}) {
		t.Errorf("ids: %v, %v", got, err)
	}
}
