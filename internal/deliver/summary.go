package deliver

import (
	"math"
	"slices"
	"strings"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// Summary is what a run did. Claimed = Delivered + Retried + Dead + Cancelled +
// Released + Late + Unrecorded; LostRecovered is part of Retried and Dead.
type Summary struct {
	WorkerID      string
	StartedAt     time.Time // by the database's clock
	FinishedAt    time.Time
	Claimed       int
	Delivered     int
	Retried       int
	Dead          int
	Cancelled     int
	LostRecovered int                 // attempts of lost workers that this run closed
	Released      int                 // claimed, not sent, given back
	HeldBack      map[work.Hold]int64 // due, and not claimed for a reason of the destination's
	Late          int                 // results that came after their lease was taken over, and moved nothing
	DueRemaining  *int64              // nil: not known
	Latency       Percentiles
	OldestDueAge  *time.Duration // nil: nothing is due
	ByClass       map[work.Class]int
	StoppedBy     StoppedBy
	Held          error // destinations whose deliveries could not be touched; nil: none
	Unrecorded    int   // results that could not be written; their attempts will be closed as lost
}

// Percentiles of the time to an answer or failure; nil where nothing was sent.
type Percentiles struct{ P50, P90, P99, Max *time.Duration }

// tally counts a run.
type tally struct {
	sum       Summary
	attempted int // what counts towards the limit: not what was lost elsewhere or cancelled
	latencies []time.Duration
}

func newTally(owner string, began time.Time) tally {
	label, _, _ := strings.Cut(owner, "#")
	return tally{sum: Summary{WorkerID: label, StartedAt: began, ByClass: make(map[work.Class]int), HeldBack: make(map[work.Hold]int64)}}
}

func (t *tally) claimed(c work.Claimed) {
	t.sum.Claimed++
	if !c.Lost && !c.Expired {
		t.attempted++
	}
}

func (t *tally) recorded(d done, fate work.Fate) {
	if fate == work.Late {
		t.sum.Late++
		return
	}
	if d.outcome.Class != "" {
		t.sum.ByClass[d.outcome.Class]++
	}
	if d.claimed.Lost {
		t.sum.LostRecovered++
	} else if d.outcome.Latency > 0 { // what was refused before it was sent has none
		t.latencies = append(t.latencies, d.outcome.Latency)
	}
	switch d.decision.Verdict {
	case policy.Deliver:
		t.sum.Delivered++
	case policy.Retry:
		t.sum.Retried++
	case policy.Die:
		t.sum.Dead++
	case policy.Cancel:
		t.sum.Cancelled++
	case policy.Release:
		t.sum.Released++
		t.attempted-- // it was not attempted after all
	}
}

func (t *tally) summary(why StoppedBy, finished time.Time) Summary {
	s := t.sum
	s.StoppedBy, s.FinishedAt = why, finished
	slices.Sort(t.latencies)
	s.Latency = Percentiles{t.percentile(0.5), t.percentile(0.9), t.percentile(0.99), t.percentile(1)}
	return s
}

// percentile is the smallest latency that at least the fraction q does not exceed.
func (t *tally) percentile(q float64) *time.Duration {
	if len(t.latencies) == 0 {
		return nil
	}
	return &t.latencies[max(0, int(math.Ceil(q*float64(len(t.latencies))))-1)]
}
