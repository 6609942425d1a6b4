package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// countMost bounds how far what remains is counted.
	countMost = 10_000_000
	// endWithin bounds what is written after a stop was asked for.
	endWithin = 5 * time.Second
	// holdFor is added to the pause for how long others are told that a run is at a sweep.
	holdFor = 30 * time.Second
)

// Run sweeps by each policy, one batch after the other in turns, until nothing is left or
// a bound is reached. What was done before an error is in the summaries.
func Run(ctx context.Context, store Store, o Options) ([]Summary, error) {
	r := &run{store: store, o: o, began: time.Now()}
	err := r.begin(ctx)
	begun := err == nil
	if begun {
		r.expect(ctx)
		err = r.turns(ctx)
	}
	sums := make([]Summary, 0, len(r.passes))
	for _, p := range r.passes {
		if p.sum.StoppedBy == "" {
			p.sum.StoppedBy = Failed
		}
		err = errors.Join(err, p.leave(ctx, r))
		if begun {
			sums = append(sums, p.sum)
		}
	}
	return sums, err
}

type run struct {
	store   Store
	o       Options
	began   time.Time
	batches int // that looked at something, whether it went or not
	passes  []*pass
}

// pass is one policy's part in a run.
type pass struct {
	policy  work.Retention
	sweep   work.Sweep
	pace    pace
	archive Archive
	sum     Summary
}

func (p *pass) ended() bool { return p.sum.StoppedBy != "" }

// begin asks for the sweep of every policy before the first batch of any: a guard that
// refuses one keeps all from being touched.
func (r *run) begin(ctx context.Context) error {
	for _, policy := range r.o.Policies {
		reach := r.o.Reach(policy)
		sweep, err := r.store.BeginSweep(ctx, work.SweepRequest{
			Policy: policy, Reach: reach, Owner: r.o.Owner, Alone: r.o.Alone,
			Judge: func(known []work.RetentionVersion) error { return Judge(policy, known, reach.ByHand) },
			Admit: func(candidates, total int64) error { return Admit(policy, candidates, total) },
		})
		if err != nil {
			return err
		}
		size := policy.Batch
		if r.o.Batch > 0 {
			size = r.o.Batch
		}
		p := &pass{policy: policy, sweep: sweep, pace: newPace(size), sum: Summary{
			Policy: policy.Name, Version: policy.Version, Target: policy.Target, Cutoff: sweep.Cutoff, StartedAt: sweep.AsOf, AlreadyDone: sweep.Batches,
		}}
		r.passes = append(r.passes, p)
		if sweep.ID == 0 || sweep.Finished {
			p.sum.StoppedBy = Drained
		} else if err := p.openArchive(r); err != nil {
			return err
		}
	}
	return nil
}

// expect counts what the run has before it, for whoever looks on.
func (r *run) expect(ctx context.Context) {
	if r.o.Expect == nil {
		return
	}
	var sum int64
	for _, p := range r.passes {
		if p.ended() {
			continue
		}
		if rest, err := r.store.Rest(ctx, p.sweep, countMost); err == nil {
			sum += rest.Remaining
		}
	}
	r.o.Expect(sum)
}

// turns gives each policy one batch after the other, so that a large one does not keep
// the others waiting until the time is over.
func (r *run) turns(ctx context.Context) error {
	for {
		busy := false
		for _, p := range r.passes {
			if p.ended() {
				continue
			}
			if by, err := r.stop(ctx); err != nil || by != "" {
				r.stopAll(by)
				return err
			}
			took, err := p.batch(ctx, r)
			if err != nil {
				if ctx.Err() != nil {
					r.stopAll(Signal)
					return nil
				}
				return err
			}
			busy = true
			if r.more() {
				pause(ctx, r.pause(took))
			}
		}
		if !busy {
			return nil
		}
	}
}

func (r *run) more() bool {
	for _, p := range r.passes {
		if !p.ended() {
			return true
		}
	}
	return false
}

func (r *run) stopAll(by StoppedBy) {
	for _, p := range r.passes {
		if !p.ended() {
			p.sum.StoppedBy = by
		}
	}
}

// pause is how long to rest after a batch, no longer than the run may last.
func (r *run) pause(took time.Duration) time.Duration {
	if r.o.Pause >= 0 {
		took = r.o.Pause
	}
	if r.o.MaxTime > 0 {
		took = min(took, r.o.MaxTime-time.Since(r.began))
	}
	return took
}

// stop says what ends the run before its next batch, "" for nothing. A brake is waited
// for until the time is over.
func (r *run) stop(ctx context.Context) (StoppedBy, error) {
	braked, said := StoppedBy(""), false
	limit := r.o.MaxTime
	if limit == 0 {
		limit = brakedMost
	}
	for {
		switch stopped, err := r.asked(); {
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return Signal, nil
		case stopped:
			return StopFile, nil
		case r.o.MaxBatches > 0 && r.batches >= r.o.MaxBatches:
			return MaxBatches, nil
		case braked != "" && time.Since(r.began) >= limit:
			return braked, nil
		case r.o.MaxTime > 0 && r.batches > 0 && time.Since(r.began) >= r.o.MaxTime:
			return MaxTime, nil
		}
		by, why, err := r.braked(ctx)
		if err != nil || by == "" {
			return "", err
		}
		if braked, said = by, said && by == braked; !said {
			said = true
			r.o.Log.Info("the sweep waits", "brake", string(by), "why", why)
		}
		pause(ctx, brakeEvery)
	}
}

const (
	// brakeEvery is how often a brake that is on is looked at again.
	brakeEvery = time.Second
	// brakedMost is how long a run without a bound of its time waits for brakes.
	brakedMost = 10 * time.Minute
)

func (r *run) asked() (bool, error) {
	if r.o.Stopped == nil {
		return false, nil
	}
	return r.o.Stopped()
}

// braked says which brake is on, and why.
func (r *run) braked(ctx context.Context) (StoppedBy, string, error) {
	if r.o.MaxLag == 0 && r.o.MaxXminAge == 0 {
		return "", "", nil
	}
	b, err := r.store.Brakes(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", "", nil
	case err != nil:
		return "", "", err
	case r.o.MaxLag > 0 && b.Lag > r.o.MaxLag:
		return Lag, fmt.Sprintf("a replica lags by %s, more than %s", b.Lag.Round(time.Millisecond), r.o.MaxLag), nil
	case r.o.MaxXminAge > 0 && b.XminAge > r.o.MaxXminAge:
		return XminAge, fmt.Sprintf("a transaction has held its snapshot for %s, more than %s", b.XminAge.Round(time.Millisecond), r.o.MaxXminAge), nil
	}
	return "", "", nil
}

// batch makes one batch; one that was in the way of others is tried again, smaller.
func (p *pass) batch(ctx context.Context, r *run) (time.Duration, error) {
	request := work.SweepBatch{Sweep: p.sweep, Owner: r.o.Owner, Hold: holdFor + max(r.o.Pause, 0)*time.Duration(len(r.passes))}
	if p.archive != nil {
		request.Archive = p.archive.Append
	}
	for {
		request.Limit = p.pace.now
		began := time.Now()
		swept, err := r.store.SweepBatch(ctx, request)
		took := time.Since(began)
		switch {
		case err == nil:
			p.pace.took(took)
			p.count(r, swept, took)
			return took, nil
		case !errors.Is(err, work.ErrContended) || ctx.Err() != nil || !p.pace.contended():
			return took, err
		}
		r.o.Log.Warn("a batch was in the way of others; the next is smaller", "policy", p.policy.Name, "batch", p.pace.now, "error", err)
		pause(ctx, took)
	}
}

// openArchive makes sure that rows can be written out before any is removed.
func (p *pass) openArchive(r *run) error {
	if !p.policy.Archive {
		return nil
	}
	archive, err := r.o.Archive(p.policy, p.sweep)
	if err == nil {
		p.archive = archive
	}
	return err
}

func (p *pass) count(r *run, s work.Swept, took time.Duration) {
	if s.Looked > 0 {
		r.batches++
	}
	if s.Key != "" {
		p.sum.Batches++
	}
	p.sum.Deliveries += s.Deliveries
	p.sum.Attempts += s.Attempts
	p.sum.Skipped += s.Skipped
	p.sum.Archived += s.Archived
	p.sum.Took += took
	if s.Last {
		p.sum.StoppedBy = Drained
	}
	if r.o.Progress != nil {
		r.o.Progress(s)
	}
}

// leave lets go of the sweep and counts what it has still before it. That is done also
// after a stop was asked for.
func (p *pass) leave(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	var err error
	if p.archive != nil {
		err = p.archive.Close()
	}
	if p.sweep.ID != 0 {
		ended := r.store.EndSweep(ctx, p.sweep, r.o.Owner, p.sum.StoppedBy == Drained)
		if p.sum.StoppedBy == Failed {
			return err // what failed is said
		}
		err = errors.Join(err, ended)
	}
	if rest, counted := r.store.Rest(ctx, p.sweep, countMost+1); counted == nil {
		p.sum.Window = rest.Window
		if rest.Remaining <= countMost {
			p.sum.Remaining = &rest.Remaining
		}
	}
	return err
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
