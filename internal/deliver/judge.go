package deliver

import (
	"context"
	"time"

	"example.com/whctl/internal/work"
)

// judge has the health of destinations judged by what was recorded. Successes of a
// destination that nothing is known against need no judgement, so that the ordinary
// group costs nothing. A judgement that fails is left out: the next one counts on from
// what is known, and a probe ends by itself.
func (r *recorder) judge(ctx context.Context, s *settled) {
	if s.err != nil {
		return // and there are no fates
	}
	trials, to := r.trials(s.done, s.fates)
	if len(trials) == 0 {
		return
	}
	health, err := r.store.Judge(ctx, trials, func(asOf time.Time, h work.Health, t work.Trial) work.Health {
		return to[h.DestinationID].Policy.Judge(h, asOf, t)
	})
	if err != nil {
		r.o.Log.Warn("the health of destinations could not be recorded", "destinations", len(trials), "error", err)
		return
	}
	s.health = health
	for _, h := range health {
		r.troubled[h.DestinationID] = !h.Clean()
	}
}

// trials are the outcomes of those destinations that have to be judged.
func (r *recorder) trials(group []done, fates []work.Fate) ([]work.Trial, map[int64]*Endpoint) {
	var all []work.Trial
	place, to := map[int64]int{}, map[int64]*Endpoint{}
	for i, d := range group {
		if fates[i] != work.Late && (r.troubled[d.claimed.DestinationID] || d.telling()) {
			to[d.claimed.DestinationID] = d.to
		}
	}
	if len(to) == 0 {
		return nil, nil
	}
	for i, d := range group {
		id := d.claimed.DestinationID
		if to[id] == nil || fates[i] == work.Late {
			continue
		}
		at, known := place[id]
		if !known {
			at = len(all)
			place[id] = at
			all = append(all, work.Trial{DestinationID: id})
		}
		if d.probe {
			all[at].Probe = true
			all[at].Outcomes = append([]work.Outcome{d.outcome}, all[at].Outcomes...)
			continue
		}
		all[at].Outcomes = append(all[at].Outcomes, d.outcome)
	}
	return all, to
}

// telling says that a result may change what is known of its destination.
func (d done) telling() bool {
	if d.clean && d.outcome.Class == work.OK {
		return false
	}
	return d.probe || !d.clean || !d.to.Policy.Judge(work.Health{}, time.Time{}, work.Trial{Outcomes: []work.Outcome{d.outcome}}).Clean()
}
