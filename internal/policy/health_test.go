package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func TestAdmit(t *testing.T) {
	plain := policy.Default()
	paced := plain
	paced.Rate = policy.Rate{20, time.Second}
	off := plain
	off.Circuit.Failures = 0
	for name, c := range map[string]struct {
		policy policy.Policy
		health work.Health
		want   policy.Admission
	}{
		"nothing known":           {plain, work.Health{}, policy.Admission{Room: math.MaxInt}},
		"some failures":           {plain, work.Health{Failures: 19}, policy.Admission{Room: math.MaxInt}},
		"paused":                  {plain, work.Health{Pause: work.Pause{At: noon, By: "ann", Reason: "moving"}}, policy.Admission{Hold: work.HoldPaused, Why: "paused by ann: moving"}},
		"paused before all else":  {paced, work.Health{Pause: work.Pause{At: noon}, HeldUntil: after(time.Second)}, policy.Admission{Hold: work.HoldPaused, Why: "paused by : "}},
		"asked for a pause":       {plain, work.Health{HeldUntil: after(1)}, policy.Admission{Hold: work.HoldRetryAfter, Until: after(1), Why: "the receiver asked for a pause"}},
		"its pause is over":       {plain, work.Health{HeldUntil: noon}, policy.Admission{Room: math.MaxInt}},
		"circuit open":            {plain, work.Health{Failures: 20, Openings: 1, OpenUntil: after(1)}, policy.Admission{Hold: work.HoldCircuit, Until: after(1), Why: "20 failures in a row"}},
		"circuit half open":       {plain, work.Health{Openings: 1, OpenUntil: noon}, policy.Admission{Room: 1, Probe: true}},
		"a probe is under way":    {plain, work.Health{Openings: 1, OpenUntil: noon, ProbeUntil: after(1)}, policy.Admission{Hold: work.HoldCircuit, Until: after(1), Why: "a probe is under way"}},
		"the probe was lost":      {plain, work.Health{Openings: 1, OpenUntil: noon, ProbeUntil: noon}, policy.Admission{Room: 1, Probe: true}},
		"circuit turned off":      {off, work.Health{Openings: 1, OpenUntil: after(1)}, policy.Admission{Room: math.MaxInt}},
		"rate, never used":        {paced, work.Health{}, policy.Admission{Room: 1}},
		"rate, free again":        {paced, work.Health{NextSlot: noon}, policy.Admission{Room: 1}},
		"rate, used up":           {paced, work.Health{NextSlot: after(1)}, policy.Admission{Hold: work.HoldRate, Until: after(1), Why: "its rate of 20/s is used up"}},
		"half open within a rate": {paced, work.Health{Openings: 1, OpenUntil: noon, NextSlot: after(1)}, policy.Admission{Hold: work.HoldRate, Until: after(1), Why: "its rate of 20/s is used up"}},
	} {
		if got := c.policy.Admit(c.health, noon); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestNeedsTicket(t *testing.T) {
	paced := policy.Policy{Rate: policy.Rate{1, time.Hour}}
	if !paced.NeedsTicket(work.Health{}) || (policy.Policy{}).NeedsTicket(work.Health{Failures: 3}) || !(policy.Policy{}).NeedsTicket(work.Health{Openings: 1}) {
		t.Error("tickets are for rates and circuits that are not closed, and for nothing else")
	}
}

// Whatever the claims, no window of a rate's time sees more than its number and one.
func TestRateIsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Policy{Rate: policy.Rate{rapid.IntRange(1, 5000).Draw(t, "n"), rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}}
		var begun []time.Time
		h, now := work.Health{}, noon
		most := int64(p.Rate.Per) / int64(p.Rate.N) * 40
		for range rapid.IntRange(1, 60).Draw(t, "claims") {
			now = now.Add(time.Duration(rapid.Int64Range(0, most).Draw(t, "wait")))
			taken := min(p.Admit(h, now).Room, rapid.IntRange(0, 100).Draw(t, "due"))
			h = p.Spend(h, now, taken)
			for range taken {
				begun = append(begun, now)
			}
		}
		first := 0
		for i, at := range begun {
			for at.Sub(begun[first]) >= p.Rate.Per {
				first++
			}
			if n := i - first + 1; n > p.Rate.N+1 {
				t.Fatalf("%d within %s at %s", n, p.Rate.Per, p.Rate)
			}
		}
	})
}

// A rate that is asked for all the time is used to its end, less what its bursts cost.
func TestRateIsReached(t *testing.T) {
	for _, r := range []policy.Rate{{1, time.Second}, {20, time.Second}, {50, time.Second}, {1000, time.Second}, {600, time.Minute}} {
		p, h, n := policy.Policy{Rate: r}, work.Health{}, 0
		end := noon.Add(10 * r.Per)
		for now := noon; now.Before(end); now = now.Add(r.Per / 10000) {
			room := p.Admit(h, now).Room
			h = p.Spend(h, now, room)
			n += room
		}
		if low := int(9.7 * float64(r.N)); n < low || n > 10*(r.N+1) {
			t.Errorf("%s: %d in ten times its time, want %d to %d", r, n, low, 10*(r.N+1))
		}
	}
}

func outcome(status int) work.Outcome {
	return work.Outcome{Class: work.ClassOfStatus(status), Status: status}
}

func trial(o ...work.Outcome) work.Trial { return work.Trial{Outcomes: o} }

func TestCircuit(t *testing.T) {
	p := policy.Default()
	p.Circuit = policy.Circuit{Failures: 3, OpenFor: 30 * time.Second, OpenMax: time.Minute}
	p.Lease = time.Minute
	down, up := outcome(500), outcome(200)

	h := p.Judge(work.Health{}, noon, trial(down, down))
	if h.Openings != 0 || h.Failures != 2 {
		t.Fatalf("after two failures: %+v", h)
	}
	if h := p.Judge(h, noon, trial(outcome(404), down, down)); h.Openings != 0 || h.Failures != 2 {
		t.Errorf("an answer between failures: %+v", h)
	}
	h = p.Judge(h, noon, trial(down, down))
	if h.Openings != 1 || !h.OpenUntil.Equal(after(30*time.Second)) || h.Failures != 4 {
		t.Fatalf("after the third and one more that was in flight: %+v", h)
	}
	h = p.Judge(h, after(time.Second), trial(down))
	if h.Openings != 1 || !h.OpenUntil.Equal(after(30*time.Second)) {
		t.Errorf("what was in flight must not open it again: %+v", h)
	}
	for i, rest := range []time.Duration{time.Minute, time.Minute} {
		h = p.Spend(h, noon, 1)
		if !h.ProbeUntil.Equal(after(time.Minute)) {
			t.Fatalf("probe %d: %+v", i, h)
		}
		h = p.Judge(h, noon, work.Trial{Outcomes: []work.Outcome{down}, Probe: true})
		if h.Openings != i+2 || !h.OpenUntil.Equal(after(rest)) || !h.ProbeUntil.IsZero() {
			t.Fatalf("probe %d failed: %+v", i, h)
		}
	}
	for name, o := range map[string]work.Outcome{"given back": {}, "broken off": {Class: work.Lost}, "cannot be sent": {Class: work.Invalid}} {
		got := p.Judge(p.Spend(h, noon, 1), noon, work.Trial{Outcomes: []work.Outcome{o}, Probe: true})
		if got != h {
			t.Errorf("a probe that was %s: %+v, want %+v", name, got, h)
		}
	}
	for _, o := range []work.Outcome{up, outcome(404)} {
		if got := p.Judge(p.Spend(h, noon, 1), noon, work.Trial{Outcomes: []work.Outcome{o}, Probe: true}); got != (work.Health{}) {
			t.Errorf("a probe that was answered %d: %+v", o.Status, got)
		}
	}
	if got := p.Judge(work.Health{}, noon, work.Trial{Outcomes: []work.Outcome{down}, Probe: true}); got != (work.Health{Failures: 1}) {
		t.Errorf("a probe of a circuit that was closed meanwhile, by an answer or by a person: %+v", got)
	}
	p.Circuit.Failures = 0
	if got := p.Judge(h, noon, trial(down)); got.Openings != 0 || !got.OpenUntil.IsZero() {
		t.Errorf("turned off: %+v", got)
	}
}

func TestRefusalsPause(t *testing.T) {
	p := policy.Default()
	h := p.Judge(work.Health{}, noon, trial(outcome(401), outcome(403), outcome(401), outcome(401)))
	if h.Refusals != 4 || !h.Pause.At.IsZero() {
		t.Fatalf("after four: %+v", h)
	}
	if got := p.Judge(h, noon, trial(outcome(200), outcome(401))); got.Refusals != 1 {
		t.Errorf("a success between: %+v", got)
	}
	if got := p.Judge(h, noon, trial(work.Outcome{Class: work.Timeout}, outcome(401))); got.Pause.At.IsZero() {
		t.Errorf("a time-out says nothing about credentials: %+v", got)
	}
	h = p.Judge(h, noon, trial(outcome(403)))
	want := work.Pause{At: noon, By: "whctl", Reason: "auto-paused: credentials (5 answers of 401 or 403 in a row)"}
	if h.Pause != want {
		t.Errorf("after five: %+v, want %+v", h.Pause, want)
	}
	others := h
	others.Pause, others.RefusedSince, others.DeliveredAt = work.Pause{}, noon, after(time.Second)
	if got := p.Judge(others, after(time.Minute), trial(outcome(401))); !got.Pause.At.IsZero() || got.Refusals != 1 || !got.RefusedSince.Equal(after(time.Minute)) {
		t.Errorf("while another worker delivered: %+v", got)
	}
	others.DeliveredAt = noon
	if got := p.Judge(others, after(time.Minute), trial(outcome(401))); got.Pause.At.IsZero() {
		t.Errorf("another worker delivered before the first refusal only: %+v", got)
	}
	byHand := work.Health{Pause: work.Pause{At: noon, By: "ann", Reason: "moving"}, Refusals: 7}
	if got := p.Judge(byHand, noon, trial(outcome(401))); got.Pause != byHand.Pause {
		t.Errorf("a person's reason was replaced: %+v", got.Pause)
	}
}

func TestRetryAfterHoldsTheDestination(t *testing.T) {
	p := policy.Default()
	p.RetryAfterMax = time.Hour
	asked := func(status int, d time.Duration) work.Outcome {
		o := outcome(status)
		o.RetryAfter = d
		return o
	}
	for _, c := range []struct {
		o    work.Outcome
		want time.Time
	}{
		{asked(429, time.Minute), after(time.Minute)},
		{asked(503, time.Minute), after(time.Minute)},
		{asked(503, 2*time.Hour), after(time.Hour)},
		{asked(500, time.Minute), time.Time{}},
		{asked(408, time.Minute), time.Time{}},
		{asked(429, 0), time.Time{}},
	} {
		if h := p.Judge(work.Health{}, noon, trial(c.o)); !h.HeldUntil.Equal(c.want) {
			t.Errorf("%d with %s: held until %s, want %s", c.o.Status, c.o.RetryAfter, h.HeldUntil, c.want)
		}
	}
	deaf := p
	deaf.RetryAfterMax = 0
	if h := deaf.Judge(work.Health{}, noon, trial(asked(429, time.Minute))); !h.HeldUntil.IsZero() {
		t.Errorf("a policy that ignores Retry-After held until %s", h.HeldUntil)
	}
	h := work.Health{HeldUntil: after(time.Hour)}
	if h := p.Judge(h, noon, trial(asked(429, time.Second))); !h.HeldUntil.Equal(after(time.Hour)) {
		t.Errorf("a shorter wish cut a longer one short: %s", h.HeldUntil)
	}
}

// Where a rate is raised, what the slower one had put off is not waited for.
func TestARaisedRate(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	slow, fast := policy.Default(), policy.Default()
	slow.Rate, fast.Rate = policy.Rate{1, time.Hour}, policy.Rate{10, time.Second}
	h := slow.Spend(work.Health{}, at, 1)
	if a := slow.Admit(h, at.Add(59*time.Minute)); a.Hold != work.HoldRate {
		t.Errorf("by the slow rate: %+v", a)
	}
	if a := fast.Admit(h, at); a.Room != 1 {
		t.Errorf("by the fast rate: %+v", a)
	}
	if h = fast.Spend(h, at, 1); !h.NextSlot.Equal(at.Add(100 * time.Millisecond)) {
		t.Errorf("the next slot is %s", h.NextSlot)
	}
	// A transaction that began earlier and asks later.
	if a := fast.Admit(h, at.Add(-5*time.Second)); a.Hold != work.HoldRate {
		t.Errorf("by an older clock: %+v", a)
	}
}
