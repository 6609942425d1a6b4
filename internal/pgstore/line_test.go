package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// reading is a driver that reads whatever is there in one go, as a buffered one does.
type reading struct{ from io.Reader }

func (r reading) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	_, err := r.from.Read(make([]byte, 100))
	return driver.ResultNoRows, err
}

func newPipe(t *testing.T, limit time.Duration) (*line, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	nanoseconds := new(atomic.Int64)
	nanoseconds.Store(int64(limit))
	return &line{boundedConn: &boundedConn{Conn: near, limit: nanoseconds}, answer: math.MaxInt, release: func() bool { return true }}, far
}

// A notification that arrives together with the answer before it would wait in the
// driver's buffer, where nobody sees it, until the next one.
func TestWhatCameWithAnAnswerIsNoticed(t *testing.T) {
	c, far := newPipe(t, time.Minute)
	for i, step := range []struct {
		arrives string
		more    bool
	}{{"answer", false}, {"answer", false}, {"answer+news", true}, {"news+answer", true}, {"answer", false}} {
		go func() { _, _ = far.Write([]byte(step.arrives)) }()
		more, err := c.ask(reading{c})
		if err != nil || more != step.more {
			t.Errorf("step %d: more %v, %v; want %v", i, more, err, step.more)
		}
	}
}

func TestAwaitTakesNothingAway(t *testing.T) {
	c, far := newPipe(t, time.Minute)
	if err := c.await(time.Millisecond); err != nil || c.held {
		t.Errorf("nothing arrived: held %v, %v", c.held, err)
	}
	go func() { _, _ = far.Write([]byte("news")) }()
	if err := c.await(time.Minute); err != nil || !c.held {
		t.Fatalf("held %v, %v", c.held, err)
	}
	if err := c.await(time.Minute); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "news" || c.got != 4 {
		t.Errorf("read %q, %d bytes counted, %v", got, c.got, err)
	}
	_ = far.Close()
	if err := c.await(time.Minute); err == nil {
		t.Error("the other end is gone, and nobody noticed")
	}
}

// A link that swallows everything ends with the next question.
func TestASilentLineEndsAQuestion(t *testing.T) {
	c, _ := newPipe(t, time.Millisecond)
	if err := c.await(5 * time.Millisecond); err != nil {
		t.Errorf("silence is no fault: %v", err)
	}
	if _, err := c.ask(reading{c}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
