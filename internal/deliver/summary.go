package deliver

import (
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

// Percentiles of the time to an answer or failure; nil where nothing was sent. Beyond
// 100,000 attempts they are those of a sample; Max is exact.
type Percentiles struct{ P50, P90, P99, Max *time.Duration }

// tally counts a run.
type tally struct {
	sum       Summary
	attempted int // what counts towards the limit: not what was lost elsewhere or cancelled
	latencies sample
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

func (t *tally) recorded(d done, fate work.Fate, random func() float64) {
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
		t.latencies.add(d.outcome.Latency, random)
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
	s.Latency = t.latencies.percentiles()
	return s
}
