package pgstore_test

import (
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func TestSurveySaysWhoIsDueAndWhatIsNext(t *testing.T) {
	d := testbed.DB(t)
	w := newWorker(t, d, "a")
	look := func() work.Survey {
		t.Helper()
		v, err := w.store.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now := testbed.QueryInt(t, d, `SELECT extract(epoch FROM now())::bigint`); now-v.AsOf.Unix() > 60 || v.AsOf.Unix() > now+1 {
			t.Errorf("as of %s", v.AsOf)
		}
		return v
	}
	if v := look(); len(v.Due) != 0 || !v.NextDue.IsZero() {
		t.Errorf("of an empty table: %+v", v)
	}
	for _, name := range []string{"idle", "later", "soon", "first", "held"} {
		d.Destination(t, name, "https://r.example/")
	}
	testbed.Exec(t, d, `
SELECT whctl.enqueue(x.name, 't', x.name || x.due, '{}', not_before => now() + x.due::interval)
FROM (VALUES ('later', '2 hours'), ('soon', '1 hour'), ('soon', '3 hours'), ('first', '-1 hour'), ('first', '1 minute'), ('held', '-1 minute')) AS x(name, due)`)
	testbed.Exec(t, d, `
UPDATE whctl.destination_health h
SET failures = 1, refusals = 2, refused_since = '1999-01-01', openings = 3, open_until = 'epoch', probe_until = '2001-01-01', held_until = '2002-01-01', next_slot = '2003-01-01',
    paused_at = '2004-01-01', paused_by = 'ana', paused_reason = 'why'
FROM whctl.destinations x WHERE x.id = h.destination_id AND x.name = 'held'`)
	v := look()
	if len(v.Due) != 2 || v.Due[0].Name != "first" || v.Due[1].Name != "held" {
		t.Fatalf("due: %+v", v.Due)
	}
	if v.Due[0].Health != (work.Health{DestinationID: v.Due[0].ID}) {
		t.Errorf("health of one in order: %+v", v.Due[0].Health)
	}
	h := v.Due[1].Health
	if h.Failures != 1 || h.Refusals != 2 || h.Openings != 3 || h.OpenUntil.Unix() != 0 || h.ProbeUntil.UTC().Year() != 2001 || h.HeldUntil.UTC().Year() != 2002 ||
		h.NextSlot.UTC().Year() != 2003 || h.Pause.At.UTC().Year() != 2004 || h.Pause.By != "ana" || h.Pause.Reason != "why" {
		t.Errorf("health of the one that is held: %+v", h)
	}
	if in := v.NextDue.Sub(v.AsOf); in < 50*time.Minute || in > time.Hour {
		t.Errorf("next due in %s, want that of the head of soon", in)
	}
	// What is leased is listed: its lease may run out.
	if got := w.claim(5); len(got) != 1 {
		t.Errorf("claimed %+v, want that of first alone", got)
	}
	if v := look(); len(v.Due) != 2 {
		t.Errorf("due after a claim: %+v", v.Due)
	}
}

// A destination put in by hand has a health, and loses it with itself.
func TestHealthComesAndGoesWithItsDestination(t *testing.T) {
	d := testbed.DB(t)
	role, url := d.Login(t)
	testbed.Exec(t, d, `GRANT USAGE ON SCHEMA whctl TO `+role+`; GRANT SELECT, INSERT, DELETE ON whctl.destinations TO `+role+`; GRANT SELECT ON whctl.deliveries TO `+role)
	db := login(t, url)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO whctl.destinations (name, url, policy) VALUES ('a', 'https://a.example', 'default'), ('b', 'https://b.example', 'default')`); err != nil {
		t.Fatal(err)
	}
	const known = `SELECT string_agg(x.name, ' ' ORDER BY x.name) FROM whctl.destination_health h JOIN whctl.destinations x ON x.id = h.destination_id`
	if got := testbed.QueryString(t, d, known); got != "a b" {
		t.Errorf("health of %q", got)
	}
	testbed.Exec(t, d, `INSERT INTO whctl.shares (destination_id, owner, room) SELECT x.id, 'w#1', 3 FROM whctl.destinations x`)
	if _, err := db.ExecContext(t.Context(), `DELETE FROM whctl.destinations WHERE name = 'a'`); err != nil {
		t.Fatal(err)
	}
	if n := testbed.QueryInt(t, d, `SELECT (SELECT count(*) FROM whctl.destination_health) * 10 + (SELECT count(*) FROM whctl.shares)`); n != 11 {
		t.Errorf("%d rows of health and shares (tens and ones), want those of b", n)
	}
}
