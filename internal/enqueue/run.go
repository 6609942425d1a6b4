package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/whctl/internal/work"
)

// writers is how many chunks are on their way at the same time: while the server makes
// one durable it can insert another.
const writers = 2

// Lines enqueues what in holds, one JSON object a line. The summary is true with an
// error too: it counts what has been committed.
//
// When ctx ends, nothing more is read, and the chunks that the database works on have
// the grace to be committed; the error is the cause of ctx then. A read that waits for
// its input is left behind.
func Lines(ctx context.Context, store Store, in io.Reader, o Options) (Summary, error) {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer afterGrace(ctx, o.Grace, stop)()

	// Room for some blocks, so that it shows whether the input is slow, and for a chunk
	// that waits for a writer.
	blocks, chunks, read := make(chan block, 2), make(chan *chunk, 1), make(chan error, 1)
	max := lineMax(o.PayloadMax)
	go func() { read <- newReader(in, max).run(inner, blocks) }()
	go newChunker(o.PayloadMax, max).run(inner, blocks, chunks)

	s := &stream{placer: placer{store: store, o: o}, chunks: chunks, read: read}
	if o.Strict {
		return s.allOrNothing(ctx, inner)
	}
	err := s.drain(ctx, inner, writers, func(orders []work.Order) ([]work.Receipt, error) { return store.Enqueue(inner, orders) })
	if err != nil {
		err = fmt.Errorf("stopped after line %d; what was enqueued stays, and the same lines again count as duplicates: %w", s.sum.Lines, err)
	}
	return s.sum, err
}

// afterGrace calls stop some time after the end of ctx, and returns how to forget it.
func afterGrace(ctx context.Context, grace time.Duration, stop func()) (forget func()) {
	if grace == 0 {
		grace = DefaultGrace
	}
	ended := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			stop()
		case <-ended:
		}
	})
	return func() {
		close(ended)
		unhook()
	}
}

// stream is a run over lines.
type stream struct {
	placer
	chunks <-chan *chunk
	read   <-chan error
}

// job is a chunk on its way.
type job struct {
	chunk *chunk
	err   chan error
}

// drain places chunks until there are no more, or ctx ends. Chunks that have an event in
// common are placed one after the other, so that always the first of its lines wins; and
// results are counted and reported in the order of the lines.
func (s *stream) drain(ctx, inner context.Context, width int, put put) error {
	var jobs []job
	var next *chunk
	var failed error
	chunks := s.chunks
	for {
		ended := chunks == nil && next == nil || failed != nil || ctx.Err() != nil
		switch {
		case len(jobs) == 0 && ended:
			return s.why(ctx, inner, failed)
		case ended, len(jobs) == width, next != nil && meets(next, jobs):
			done := s.sum.Lines
			if err := s.finish(&jobs); failed == nil {
				failed = err
			} else {
				s.sum.Lines = done // there is a gap before this chunk
			}
			continue
		case next != nil:
			jobs = append(jobs, s.start(inner, next, put))
			next = nil
			continue
		}
		var oldest chan error
		if len(jobs) > 0 {
			oldest = jobs[0].err
		}
		select {
		case c, more := <-chunks:
			if next = c; !more {
				chunks = nil
			}
		case err := <-oldest:
			oldest <- err // it has room for one
			failed = s.finish(&jobs)
		case <-ctx.Done():
		}
	}
}

func (s *stream) start(ctx context.Context, c *chunk, put put) job {
	j := job{chunk: c, err: make(chan error, 1)}
	go func() { j.err <- s.place(ctx, c, put) }()
	return j
}

// finish waits for the oldest job.
func (s *stream) finish(jobs *[]job) error {
	j := (*jobs)[0]
	*jobs = (*jobs)[1:]
	if err := <-j.err; err != nil {
		return err
	}
	s.account(j.chunk)
	return nil
}

func meets(c *chunk, jobs []job) bool {
	for _, j := range jobs {
		if c.meets(j.chunk) {
			return true
		}
	}
	return false
}

// why says how a run ended.
func (s *stream) why(ctx, inner context.Context, failed error) error {
	switch {
	case ctx.Err() != nil && (failed == nil || inner.Err() != nil): // what the end of the grace broke off is no failure
		return context.Cause(ctx)
	case failed != nil:
		return failed
	}
	if err := <-s.read; err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// allOrNothing keeps the lines only if all of them can be taken.
func (s *stream) allOrNothing(ctx, inner context.Context) (Summary, error) {
	kept := false
	err := s.store.EnqueueAll(inner, func(put func([]work.Order) ([]work.Receipt, error)) (bool, error) {
		err := s.drain(ctx, inner, 1, put)
		kept = err == nil && s.sum.Clean()
		return kept, err
	})
	if err != nil || !kept {
		s.sum.Enqueued = 0
	}
	switch {
	case errors.Is(err, work.ErrUnknown):
		err = fmt.Errorf("whether all was kept or nothing could not be found out; the same lines again are safe: %w", err)
	case err != nil:
		err = fmt.Errorf("nothing was kept: %w", err)
	}
	return s.sum, err
}
