package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// A chunk that fails ends the run; what was committed behind it is counted, and the line
// that is named has nothing missing before it.
func TestALostDatabase(t *testing.T) {
	f := newFake()
	var once sync.Once
	first, behind := 0, make(chan struct{}) // of the chunk that fails
	place := func(o work.Order) int {
		n, err := strconv.Atoi(o.Subject)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	f.before = func(_ context.Context, _ int, orders []work.Order) error {
		switch begin, end := place(orders[0]), place(orders[len(orders)-1]); {
		case begin <= 2*chunkLines && 2*chunkLines <= end:
			<-behind
			first = begin
			return work.ErrUnreachable
		case begin > 2*chunkLines:
			once.Do(func() { close(behind) })
		}
		return nil
	}
	sum, err := Lines(t.Context(), f, strings.NewReader(many(6*chunkLines, "%d")), Options{PayloadMax: limit})
	if !errors.Is(err, work.ErrUnreachable) {
		t.Fatal(err)
	}
	if sum.Enqueued != int64(len(f.events)) || sum.Enqueued <= int64(first) || sum.Enqueued > int64(4*chunkLines) {
		t.Errorf("counted %d, %d are there; the chunk of line %d failed", sum.Enqueued, len(f.events), first+1)
	}
	if want := fmt.Sprintf("stopped after line %d; what was enqueued stays", first); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestAReadErrorKeepsWhatWasRead(t *testing.T) {
	f := newFake()
	broken := errors.New("broken")
	sum, err := Lines(t.Context(), f, io.MultiReader(strings.NewReader(many(3, "s%d")+`{"dest`), iotest.ErrReader(broken)), Options{PayloadMax: limit})
	if !errors.Is(err, broken) {
		t.Errorf("%v, want the reader's error", err)
	}
	count(t, sum, "3 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 3")
}

// A stop lets the chunk in hand be committed and takes no other, though the input has
// not ended and its reader waits.
func TestAStopFinishesTheChunkInHand(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancelCause(t.Context())
	signal := errors.New("told to stop")
	f.before = func(inner context.Context, _ int, _ []work.Order) error {
		cancel(signal)
		return inner.Err()
	}
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	go func() { _, _ = io.WriteString(w, lineOf("a")) }()
	type end struct {
		sum Summary
		err error
	}
	done := make(chan end, 1)
	go func() {
		sum, err := Lines(ctx, f, r, Options{PayloadMax: limit, Grace: time.Hour})
		done <- end{sum, err}
	}()
	got := testbed.Await(t, "the stop", done)
	if !errors.Is(got.err, signal) {
		t.Errorf("%v, want the cause", got.err)
	}
	count(t, got.sum, "1 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 1")
}

// What is still not committed when the grace is over is broken off.
func TestAStopDoesNotWaitForEver(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancelCause(t.Context())
	signal := errors.New("told to stop")
	f.before = func(inner context.Context, _ int, _ []work.Order) error {
		cancel(signal)
		<-inner.Done() // somebody holds the same key
		return errors.New("canceling statement due to user request")
	}
	sum, err := Lines(ctx, f, strings.NewReader(lineOf("a")), Options{PayloadMax: limit, Grace: 1})
	if !errors.Is(err, signal) || strings.Contains(err.Error(), "canceling") {
		t.Errorf("%v, want the cause", err)
	}
	count(t, sum, "0 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 0")
}
