package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/whctl/internal/work"
)

// A chunk that fails ends the run; what was committed behind it is counted, and the line
// that is named has nothing missing before it.
func TestALostDatabase(t *testing.T) {
	f := newFake()
	sent := make(chan struct{})
	f.before = func(_ context.Context, n int, _ []work.Order) error {
		switch n {
		case 2:
			<-sent
			return work.ErrUnreachable
		case 3:
			close(sent)
		}
		return nil
	}
	sum, err := Lines(t.Context(), f, strings.NewReader(many(6*chunkLines, "s%d")), Options{PayloadMax: limit})
	if !errors.Is(err, work.ErrUnreachable) {
		t.Fatal(err)
	}
	lost := int64(f.sizes[1])
	var placed int64
	for i, n := range f.sizes {
		if i != 1 {
			placed += int64(n)
		}
	}
	if sum.Enqueued != placed || placed+lost > int64(6*chunkLines) || len(f.sizes) > 4 {
		t.Errorf("counted %d of chunks %v", sum.Enqueued, f.sizes)
	}
	if want := fmt.Sprintf("stopped after line %d; what was enqueued stays", f.sizes[0]); !strings.HasPrefix(err.Error(), want) {
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
	sum, err := Lines(ctx, f, r, Options{PayloadMax: limit})
	if !errors.Is(err, signal) {
		t.Errorf("%v, want the cause", err)
	}
	count(t, sum, "1 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 1")
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
