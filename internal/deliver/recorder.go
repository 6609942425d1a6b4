package deliver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

const (
	// maxGroup bounds one recording.
	maxGroup = 500
	// gatherFor is how long a recording waits for more results to come in.
	gatherFor = 10 * time.Millisecond
	// recordAgain is the wait between two tries to record; the store has tried for a while
	// by itself. recordTries is how often more what was given up is tried.
	recordAgain = time.Second
	recordTries = 5
)

// settled is a group of results that were recorded, or that could not be.
type settled struct {
	done   []done
	fates  []work.Fate
	health []work.Health // of destinations that it changed, or looked into
	err    error
}

// recorder writes results in groups: while one group is written the next one forms.
type recorder struct {
	store   Store
	o       Options
	patient bool // the database is tried until it answers, or until hurry
	// troubled are destinations that a success would change something about.
	troubled map[int64]bool
	flying   atomic.Int64  // deliveries claimed and not settled
	ended    atomic.Int64  // of these, with a result
	enough   atomic.Int64  // how many with a result the run waits for
	freed    chan struct{} // a token when there are as many
	results  chan done
	settled  chan settled
	done     chan struct{}
	urgent   chan struct{} // closed by hurry
}

func startRecorder(ctx context.Context, store Store, o Options, patient bool) *recorder {
	r := &recorder{
		store: store, o: o, patient: patient,
		// Senders and the run never wait for each other: there is room for every place.
		results:  make(chan done, o.Places+o.ahead()+1),
		settled:  make(chan settled, o.Places+o.ahead()+1),
		freed:    make(chan struct{}, 1),
		done:     make(chan struct{}),
		urgent:   make(chan struct{}),
		troubled: make(map[int64]bool),
	}
	go r.work(ctx)
	return r
}

// put hands over a result: its place is free from now on. It is counted before it can be
// settled, so that no more are ever settled than have ended.
func (r *recorder) put(d done) {
	ended := r.ended.Add(1)
	r.results <- d
	if ended == r.enough.Load() {
		select {
		case r.freed <- struct{}{}:
		default:
		}
	}
}

// hurry ends the patience with a database that does not answer.
func (r *recorder) hurry() { close(r.urgent) }

// stop ends the recorder when all that was claimed has been settled.
func (r *recorder) stop() {
	close(r.results)
	<-r.done
}

func (r *recorder) work(ctx context.Context) {
	defer close(r.done)
	var lost error // the database takes nothing any more: nothing more is tried
	for first := range r.results {
		group := r.gather(first)
		if lost != nil {
			r.settled <- settled{done: group, err: lost}
			continue
		}
		for _, s := range r.record(ctx, group) {
			if fatal(s.err) {
				lost = s.err
			}
			r.judge(ctx, &s)
			r.settled <- s
		}
	}
}

// gather takes what is there, and waits a moment for more as long as it is less than a
// third of all that is claimed: a few deliveries are recorded at once, many in large
// groups.
func (r *recorder) gather(first done) []done {
	enough := min(maxGroup, int(r.flying.Load()/3))
	group := make([]done, 1, max(enough, 1+len(r.results)))
	group[0] = first
	t := time.NewTimer(gatherFor)
	defer t.Stop()
	for len(group) < maxGroup {
		select {
		case d, ok := <-r.results:
			if !ok {
				return group
			}
			group = append(group, d)
			continue
		default:
		}
		if len(group) >= enough {
			return group
		}
		select {
		case d, ok := <-r.results:
			if !ok {
				return group
			}
			group = append(group, d)
		case <-t.C:
			return group
		}
	}
	return group
}

// record writes a group; where the database refuses it as a whole, its halves, so
// that one result that cannot be stored does not take the others with it.
func (r *recorder) record(ctx context.Context, group []done) []settled {
	results := make([]work.Result, len(group))
	for i, d := range group {
		results[i] = d.result()
	}
	fates, err := r.store.Record(ctx, r.o.Owner, results)
	for tries := 1; r.again(err, tries); tries++ {
		fates, err = r.store.Record(ctx, r.o.Owner, results)
	}
	if err == nil || fatal(err) || len(group) == 1 {
		return []settled{{done: group, fates: fates, err: err}}
	}
	half := len(group) / 2
	return append(r.record(ctx, group[:half]), r.record(ctx, group[half:])...)
}

// again says after a moment that recording is to be tried again: what the database gave
// up a few times, and in a worker that stays as long as the database is away.
func (r *recorder) again(err error, tries int) bool {
	switch {
	case errors.Is(err, work.ErrContended) && tries <= recordTries:
	case errors.Is(err, work.ErrUnreachable) && r.patient:
	default:
		return false
	}
	t := time.NewTimer(recordAgain)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.urgent:
		return false
	}
}

// result is d in the words of the work table.
func (d done) result() work.Result {
	r := work.Result{
		ID: d.claimed.ID, AttemptID: d.claimed.AttemptID, Worker: d.claimed.Holder,
		Delay: d.decision.Delay, Reason: d.decision.Reason, Outcome: d.outcome,
	}
	switch d.decision.Verdict {
	case policy.Deliver:
		r.Move = work.MoveDelivered
	case policy.Retry:
		r.Move = work.MoveScheduled
	case policy.Die:
		r.Move = work.MoveDead
		r.Fingerprint = work.Fingerprint(d.outcome)
	case policy.Cancel:
		r.Move = work.MoveCancelled
	default:
		r.Move = work.MoveRelease
	}
	return r
}
