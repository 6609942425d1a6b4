package deliver

import (
	"context"
	"time"
)

// lookAfter is how long Serve waits before it looks for due work by itself.
const lookAfter = time.Second

// Serve is Once again and again, until ctx ends: a stand-in for the loop of a worker.
func Serve(ctx context.Context, store Store, o Options) (Summary, error) {
	var all Summary
	for {
		sum, err := Once(ctx, store, o)
		all.add(sum)
		o.observed().Turned()
		if ctx.Err() != nil {
			all.StoppedBy = Signal
			return all, nil
		}
		if err != nil {
			o.Log.Error("the run could not go on", "error", err)
		}
		t := time.NewTimer(lookAfter)
		select {
		case <-ctx.Done():
		case <-o.Wake:
		case <-t.C:
		}
		t.Stop()
	}
}

func (s *Summary) add(o Summary) {
	if s.WorkerID == "" {
		*s = o
		return
	}
	s.Claimed += o.Claimed
	s.Delivered += o.Delivered
	s.Retried += o.Retried
	s.Dead += o.Dead
	s.Cancelled += o.Cancelled
	s.LostRecovered += o.LostRecovered
	s.Released += o.Released
	s.Late += o.Late
	s.Unrecorded += o.Unrecorded
	for class, n := range o.ByClass {
		s.ByClass[class] += n
	}
	s.FinishedAt, s.DueRemaining, s.OldestDueAge, s.Held = o.FinishedAt, o.DueRemaining, o.OldestDueAge, o.Held
}
