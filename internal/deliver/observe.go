package deliver

import (
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// Observer is told what a run does, by its loop: the calls must not wait for anything.
type Observer interface {
	// Turned: the loop is alive. An idle one turns at least every few seconds.
	Turned()
	// Claimed: a claim took n deliveries, perhaps none.
	Claimed(n int)
	// Recorded: one of them is settled. Without an attempt class is "", and latency 0
	// where nothing was sent.
	Recorded(class work.Class, ending work.Ending, latency time.Duration)
	// Held is how many destinations with due work are held back now, by why.
	Held(destinations map[work.Hold]int)
	// Backlog is what is due and not leased; it comes last of what a count tells.
	Backlog(due int64, oldest time.Duration)
}

// observed tells o's observer, if there is one.
func (o Options) observed() Observer {
	if o.Observe == nil {
		return unobserved{}
	}
	return o.Observe
}

type unobserved struct{}

func (unobserved) Turned()                                         {}
func (unobserved) Claimed(int)                                     {}
func (unobserved) Recorded(work.Class, work.Ending, time.Duration) {}
func (unobserved) Held(map[work.Hold]int)                          {}
func (unobserved) Backlog(int64, time.Duration)                    {}

// tell is one settled delivery in an observer's words. What a lost worker had begun took
// no time that anybody knows, and what could not be recorded is no attempt on record.
func (d done) tell(to Observer, fate work.Fate, err error) {
	latency := d.outcome.Latency
	if d.claimed.Lost {
		latency = 0
	}
	switch {
	case err != nil:
		to.Recorded("", work.EndUnrecorded, latency)
	case fate == work.Late:
		to.Recorded(d.outcome.Class, work.EndLate, latency)
	default:
		to.Recorded(d.outcome.Class, ending(d.decision.Verdict), latency)
	}
}

func ending(v policy.Verdict) work.Ending {
	switch v {
	case policy.Deliver:
		return work.EndDelivered
	case policy.Retry:
		return work.EndRetried
	case policy.Die:
		return work.EndDead
	case policy.Cancel:
		return work.EndCancelled
	default:
		return work.EndReleased
	}
}
