package httpsend

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// breaking is a connection that takes so many bytes and then is broken for writing, while
// an answer waits to be read.
type breaking struct {
	net.Conn
	takes  int
	answer io.Reader
}

func (b *breaking) Write(p []byte) (int, error) {
	n := min(len(p), b.takes)
	b.takes -= n
	if n < len(p) {
		return n, syscall.ECONNRESET
	}
	return n, nil
}

func (b *breaking) Read(p []byte) (int, error) { return b.answer.Read(p) }

// An answer to a request that broke off counts, however short the request is: TLS writes
// also that in several pieces. Its connection carries no other. Where nothing was written
// there can be no answer to it: what can be read belongs to nobody.
func TestAnswersToWritesThatBreakOff(t *testing.T) {
	for name, x := range map[string]struct {
		takes       int
		first, rest []byte
		answered    bool
	}{
		"short":              {10, make([]byte, 100), nil, true},
		"long":               {atOnce + 10, make([]byte, 100), make([]byte, 2*atOnce), true},
		"long, at its start": {10, make([]byte, 100), make([]byte, 2*atOnce), true},
		"long head":          {atOnce + 10, make([]byte, 2*atOnce), nil, true},
		"short, nothing":     {0, make([]byte, 100), nil, false},
		"long, nothing":      {0, make([]byte, 100), make([]byte, 2*atOnce), false},
		"long head, nothing": {0, make([]byte, 2*atOnce), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			s := &socket{Conn: &breaking{Conn: here, takes: x.takes, answer: strings.NewReader(ok)}}
			ex := newExchange(context.Background(), time.Now(), time.Hour)
			ex.conn, ex.free = newConn(s, s, "a"), func(*conn) { t.Error("the connection is used again") }
			resp, err := ex.post(x.first, x.rest) //nolint:bodyclose // there is none
			if (err == nil) != x.answered || resp != nil && resp.StatusCode != 200 {
				t.Errorf("%+v, %v", resp, err)
			}
			ex.whole = err == nil
			ex.close()
			if !closed(there) {
				t.Error("the connection is open")
			}
		})
	}
}

// The end of a long request is waited for no longer than for anything else of it.
func TestWaitsForWritesEndWithTheTimeLimit(t *testing.T) {
	for _, limit := range []time.Duration{time.Hour, writeEnd / 2} {
		here, there := net.Pipe()
		defer there.Close()
		s := &socket{Conn: &timed{Conn: here}}
		ex := newExchange(context.Background(), time.Now(), limit)
		ex.conn, ex.writing = newConn(s, s, "a"), make(chan bool, 1)
		if err := ex.hold(s); err != nil {
			t.Fatal(err)
		}
		ex.writing <- true
		if !ex.written() {
			t.Error("not all was written")
		}
		if by := s.Conn.(*timed).by; by.After(ex.deadline) || limit == time.Hour && time.Until(by) > writeEnd {
			t.Errorf("writes may go on until %v, the request until %v", by, ex.deadline)
		}
		ex.close()
	}
}

// timed tells until when may be written.
type timed struct {
	net.Conn
	by time.Time
}

func (c *timed) SetDeadline(t time.Time) error { return c.SetWriteDeadline(t) }

func (c *timed) SetWriteDeadline(t time.Time) error {
	c.by = t
	return c.Conn.SetWriteDeadline(t)
}

// spoiling is a pool that makes what is given back useless.
type spoiling struct{ pool }

func (p spoiling) Put(message any) {
	b := *message.(*[]byte)
	for i := range b {
		b[i] = '!'
	}
	p.pool.Put(message)
}

// stuck is an idle connection with an answer, that takes the first of a request and no
// more. It tells what the rest was when it could not be written.
type stuck struct {
	breaking
	rest chan string
}

func (c *stuck) Write(p []byte) (int, error) {
	if c.takes > 0 {
		return c.breaking.Write(p)
	}
	n, err := c.Conn.Write(p) // which nobody reads
	c.rest <- string(p)
	return n, err
}

// The beginning of a request is given back when nobody writes it any more: a head that is
// too long for a socket is on its way still when the answer is there.
func TestMessagesAreGivenBackWhenTheyAreWritten(t *testing.T) {
	defer func(p pool) { messages = p }(messages)
	messages = spoiling{messages}
	for _, answer := range []string{refusedAnswer, "HTTP/1.1 500 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "what?\r\n\r\n"} {
		here, there := net.Pipe()
		defer there.Close()
		c := &stuck{breaking{Conn: here, takes: atOnce, answer: strings.NewReader(answer)}, make(chan string, 1)}
		k := &socket{Conn: c, raw: quietly{}}
		s := newSender(t, loopback())
		s.idle.put(newConn(k, k, "http://127.0.0.1:80"))
		r := request("http://127.0.0.1")
		r.Headers = map[string]string{"X-Long": strings.Repeat("x", 4*atOnce)}
		if o := send(t, s, r); o.Class != work.Unavailable && o.Class != work.Protocol {
			t.Errorf("%+v", o)
		}
		if rest := <-c.rest; !strings.HasPrefix(rest, "xxx") || strings.Contains(rest, "!") {
			t.Errorf("%.20q of %d bytes was still being written", rest, len(rest))
		}
	}
}

// quietly is a raw connection on which nothing has come.
type quietly struct{ syscall.RawConn }

func (quietly) Control(func(uintptr)) error { return syscall.EAGAIN }
