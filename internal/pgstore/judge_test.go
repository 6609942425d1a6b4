package pgstore_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// counting judges by counting outcomes as failures; an OK makes it clean.
func counting(_ time.Time, h work.Health, t work.Trial) work.Health {
	for _, o := range t.Outcomes {
		h.Failures++
		if o.Class == work.OK {
			h = work.Health{DestinationID: h.DestinationID}
		}
	}
	return h
}

func trial(destination int64, classes ...work.Class) work.Trial {
	t := work.Trial{DestinationID: destination}
	for _, c := range classes {
		t.Outcomes = append(t.Outcomes, work.Outcome{Class: c})
	}
	return t
}

func TestJudge(t *testing.T) {
	s := newSharing(t, 3)
	w := newWorker(t, s.d, "a")
	unwell := trial(s.ids[1], work.Unavailable, work.Timeout)
	got, err := w.store.Judge(t.Context(), []work.Trial{unwell, trial(s.ids[0], work.Timeout), trial(999, work.Timeout), unwell}, counting)
	if err != nil || len(got) != 2 || got[0].Failures != 1 || got[1].Failures != 4 || got[1].DestinationID != s.ids[1] {
		t.Errorf("health %+v, %v", got, err)
	}
	before := testbed.QueryString(t, s.d, `SELECT string_agg(h.ctid || ' ' || h.failures, ', ' ORDER BY h.destination_id) FROM whctl.destination_health h`)
	pause := work.Pause{At: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), By: "whctl", Reason: "auto-paused: credentials"}
	got, err = w.store.Judge(t.Context(), []work.Trial{trial(s.ids[0]), trial(s.ids[2])}, func(asOf time.Time, h work.Health, _ work.Trial) work.Health {
		if h.DestinationID == s.ids[2] {
			h.Openings, h.OpenUntil, h.ProbeUntil, h.HeldUntil, h.NextSlot, h.Pause = 1, asOf.Add(1), asOf.Add(2), asOf.Add(3), asOf.Add(4), pause
		}
		return h
	})
	if err != nil || len(got) != 2 || got[0].Failures != 1 || got[1].OpenUntil.IsZero() {
		t.Errorf("health %+v, %v", got, err)
	}
	after := testbed.QueryString(t, s.d, `SELECT string_agg(h.ctid || ' ' || h.failures, ', ' ORDER BY h.destination_id) FROM whctl.destination_health h WHERE h.openings = 0`)
	if len(after) == 0 || before[:len(after)] != after {
		t.Errorf("rows that did not change were written: %s, then %s", before, after)
	}
	stored, _, err := w.store.Destination(t.Context(), "d2")
	h := stored.Health
	if err != nil || !h.OpenUntil.Equal(got[1].OpenUntil) || !h.ProbeUntil.Equal(got[1].ProbeUntil) || !h.HeldUntil.Equal(got[1].HeldUntil) ||
		!h.NextSlot.Equal(got[1].NextSlot) || !h.Pause.At.Equal(pause.At) || h.Pause.By != pause.By || h.Pause.Reason != pause.Reason {
		t.Errorf("stored %+v, %v; answered %+v", h, err, got[1])
	}
}

// Judgements of many workers at once all count, in whatever order they name destinations.
func TestJudgementsAllCount(t *testing.T) {
	s := newSharing(t, 4)
	var wg sync.WaitGroup
	for i := range 8 {
		w := newWorkerOn(t, s.d, i)
		wg.Go(func() {
			for range 20 {
				var trials []work.Trial
				for _, id := range s.ids {
					trials = append(trials, trial(id, work.Timeout))
				}
				if i%2 == 0 {
					slices.Reverse(trials)
				}
				if _, err := w.store.Judge(t.Context(), trials, counting); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := testbed.QueryString(t, s.d, `SELECT string_agg(failures::text, ' ') FROM whctl.destination_health`); got != "160 160 160 160" {
		t.Errorf("failures: %s", got)
	}
}

// A judgement whose commit is not answered counts once.
func TestJudgementCountsOnce(t *testing.T) {
	s := newSharing(t, 1)
	link := testbed.Proxy(t, s.d.URL)
	store := openURL(t, link.URL(s.d.URL))
	cut := link.CutAfterAnswer(testbed.Says("COMMIT"))
	if _, err := store.Judge(t.Context(), []work.Trial{trial(s.ids[0], work.Timeout)}, counting); err != nil {
		t.Fatal(err)
	}
	testbed.Await(t, "the cut", cut.Done)
	if n := testbed.QueryInt(t, s.d, `SELECT failures FROM whctl.destination_health`); n != 1 {
		t.Errorf("%d failures", n)
	}
}

func TestPauseAndResume(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	testbed.Exec(t, d, `
UPDATE whctl.destination_health
SET failures = 3, refusals = 5, refused_since = now(), openings = 1, open_until = now(), probe_until = now(), held_until = '2100-01-01', next_slot = '2100-01-01'`)
	_, url := d.Login(t, "whctl_operator")
	s := openURL(t, url)
	act := func(do func(*pgstore.Store, work.DestinationAct) (bool, error), operator string, was bool) {
		t.Helper()
		if got, err := do(s, work.DestinationAct{Name: "r", Operator: operator, Reason: "by " + operator}); err != nil || got != was {
			t.Errorf("%s: was paused %t, %v; want %t", operator, got, err, was)
		}
	}
	pause := func(s *pgstore.Store, a work.DestinationAct) (bool, error) { return s.PauseDestination(t.Context(), a) }
	resume := func(s *pgstore.Store, a work.DestinationAct) (bool, error) {
		return s.ResumeDestination(t.Context(), a)
	}
	act(pause, "ana", false)
	act(pause, "eve", true)
	x, _, err := s.Destination(t.Context(), "r")
	if p := x.Health.Pause; err != nil || p.By != "eve" || p.Reason != "by eve" || p.At.IsZero() || x.Health.Failures != 3 || x.Health.Openings != 1 {
		t.Errorf("paused: %+v, %v", x.Health, err)
	}
	act(resume, "ida", true)
	act(resume, "ida", false)
	x, _, err = s.Destination(t.Context(), "r")
	h := x.Health
	if err != nil || h.HeldUntil.IsZero() || h.NextSlot.IsZero() {
		t.Errorf("resumed: %+v, %v; want what the receiver asked for, and the rate, to stand", h, err)
	}
	if h.HeldUntil, h.NextSlot = (time.Time{}), (time.Time{}); h != (work.Health{DestinationID: x.ID}) {
		t.Errorf("resumed: %+v; want nothing else", h)
	}
	if got := testbed.QueryString(t, d, `SELECT string_agg(operator || ' ' || action || ' ' || destination || ' ' || reason, ', ' ORDER BY id) FROM whctl.audit_log`); got != "ana pause r by ana, eve pause r by eve, ida resume r by ida, ida resume r by ida" {
		t.Errorf("on record: %s", got)
	}
	testbed.Check(t, d)
	for name, do := range map[string]func(*pgstore.Store, work.DestinationAct) (bool, error){"pause": pause, "resume": resume} {
		if _, err := do(s, work.DestinationAct{Name: "nobody", Operator: "ana", Reason: "x"}); !errors.Is(err, work.ErrNotFound) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
}

// Refusals in a row are those of all workers: what another one delivered in between is
// seen, where it is looked for, and what was delivered before or elsewhere is not.
func TestJudgeSeesWhatOthersDelivered(t *testing.T) {
	s := newSharing(t, 2)
	w := newWorker(t, s.d, "a")
	refused := func() (at time.Time) {
		t.Helper()
		_, err := w.store.Judge(t.Context(), []work.Trial{trial(s.ids[0], work.Unauthorized)}, func(asOf time.Time, h work.Health, _ work.Trial) work.Health {
			if at = h.DeliveredAt; h.Refusals == 0 {
				h.RefusedSince = asOf
			}
			h.Refusals++
			return h
		})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	delivered := func(destination int64, when string) {
		t.Helper()
		id := s.d.Enqueue(t, testbed.QueryString(t, s.d, `SELECT name FROM whctl.destinations WHERE id = $1`, destination), when, `{}`)
		testbed.Plant(t, s.d, `
UPDATE whctl.deliveries d SET state = 1, class = 1, next_attempt_at = NULL, finished_at = `+when+`
FROM whctl.envelopes e WHERE e.id = d.id AND e.delivery_id = '`+id+`'`)
	}
	delivered(s.ids[0], "now()")
	refused()
	if at := refused(); !at.IsZero() {
		t.Errorf("delivered at %s, before the first refusal", at)
	}
	delivered(s.ids[1], "now()")
	if at := refused(); !at.IsZero() {
		t.Errorf("delivered at %s, to another destination", at)
	}
	delivered(s.ids[0], "clock_timestamp()")
	if at := refused(); at.IsZero() {
		t.Error("what was delivered since the first refusal is not seen")
	}
	if h := survey(t, w.store); len(h) != 0 {
		t.Errorf("due: %+v", h)
	}
}
