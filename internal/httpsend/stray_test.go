package httpsend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

const refusedAnswer = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"

// A receiver that answers twice must not have the next delivery taken for delivered.
// Here the second answer comes with the first one, so that it always is there before
// the next request; net/http alone takes it for the next answer now and then.
func TestSecondAnswerIsNobodys(t *testing.T) {
	logTo(t, io.Discard) // net/http tells of bytes that it finds behind an answer
	const body = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
	for name, twice := range map[string]string{
		"without body": ok + ok, "with body": body + body, "body where none is allowed": "HTTP/1.1 204 No Content\r\n\r\n" + ok,
		"beginning of one": ok + "HTTP/1.1 200 ",
	} {
		t.Run(name, func(t *testing.T) {
			rec := receive(t, func(c net.Conn, s seen) bool {
				if s.body == "bad" {
					return say(c, refusedAnswer)
				}
				return say(c, twice)
			})
			s := newSender(t, loopback())
			good, bad := request(rec.url), request(rec.url)
			bad.Body = []byte("bad")
			for range 500 {
				if o := send(t, s, good); o.Class != work.OK {
					t.Errorf("%+v", o)
				}
				wantClass(t, send(t, s, bad), work.Unavailable, 500)
			}
			if n := len(rec.seen()); n != 1000 {
				t.Errorf("%d POSTs by 1000 calls", n)
			}
		})
	}
}

func logTo(t *testing.T, w io.Writer) {
	before := log.Default().Writer()
	log.SetOutput(w)
	t.Cleanup(func() { log.SetOutput(before) })
}

// pair is a watched connection and its peer.
func pair(t *testing.T) (*watchedConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := watch(conn)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); peer.Close() })
	return c, peer
}

// reader reads c as net/http does: somebody always waits for more.
func reader(c *watchedConn) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	}()
	return ended
}

func (c *watchedConn) awaitReader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.waiting && !c.dead {
		c.changed.Wait()
	}
}

func newTestExchange(t *testing.T) *exchange {
	t.Helper()
	ex := newExchange(context.Background(), time.Now(), time.Minute)
	t.Cleanup(ex.close)
	return ex
}

// answered is a connection that has carried one request and is idle.
func answered(t *testing.T) (c *watchedConn, peer net.Conn, ended <-chan error) {
	t.Helper()
	c, peer = pair(t)
	ended = reader(c)
	ex := newTestExchange(t)
	c.begin(ex)
	if _, err := c.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	say(peer, ok)
	for _, got := c.passed(ex); got < int64(len(ok)); _, got = c.passed(ex) {
		c.awaitReader()
	}
	c.awaitReader()
	c.release(ex)
	return c, peer, ended
}

// Bytes on an idle connection end it; the reader gets an error instead of the bytes.
func TestStrayBytesWhileIdle(t *testing.T) {
	c, peer, ended := answered(t)
	say(peer, ok)
	if err := <-ended; !errors.Is(err, errStray) {
		t.Errorf("the reader got %v", err)
	}
	ex := newTestExchange(t)
	c.begin(ex)
	wantNothingWritten(t, c, ex)
}

// Bytes that come between the moment a request takes the connection and the moment it
// is written are no answer to it.
func TestStrayBytesBeforeTheRequest(t *testing.T) {
	c, peer, ended := answered(t)
	ex := newTestExchange(t)
	c.begin(ex)
	say(peer, ok)
	if err := <-ended; !errors.Is(err, errStray) {
		t.Errorf("the reader got %v", err)
	}
	wantNothingWritten(t, c, ex)
}

// Nobody has read them yet: the socket itself is asked.
func TestStrayBytesInTheSocket(t *testing.T) {
	for name, then := range map[string]func(net.Conn){
		"bytes": func(peer net.Conn) { say(peer, ok) },
		"end":   func(peer net.Conn) { peer.Close() },
		"reset": func(peer net.Conn) { peer.(*net.TCPConn).SetLinger(0); peer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c, peer := pair(t)
			ex := newTestExchange(t)
			then(peer)
			if err := c.raw.Read(func(uintptr) bool { c.mu.Lock(); defer c.mu.Unlock(); return c.readable() }); err != nil {
				t.Fatal(err)
			}
			c.uses, c.waiting = 1, true // its reader has gone to wait, and has not woken up
			c.begin(ex)
			wantNothingWritten(t, c, ex)
		})
	}
}

func wantNothingWritten(t *testing.T, c *watchedConn, ex *exchange) {
	t.Helper()
	if n, err := c.Write([]byte("request")); n != 0 || err == nil {
		t.Errorf("wrote %d bytes (%v)", n, err)
	}
	if sent, _ := c.passed(ex); sent != 0 {
		t.Errorf("%d bytes sent", sent)
	}
}

// begin waits for the reader, as net/http offers a connection before its reader has
// come back to it, but not longer than the request may take.
func TestBeginWaitsForTheReader(t *testing.T) {
	c, peer := pair(t)
	c.uses = 1
	ex := newTestExchange(t)
	var begun sync.WaitGroup
	begun.Go(func() { c.begin(ex) })
	ended := reader(c)
	begun.Wait()
	if _, err := c.Write([]byte("request\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(peer).ReadString('\n'); line != "request\n" {
		t.Errorf("the peer got %q (%v)", line, err)
	}
	c.Close()
	<-ended

	stuck, _ := pair(t)
	stuck.uses = 1
	begun.Go(func() { stuck.begin(ex) })
	ex.cancel(errTimeout)
	begun.Wait()
	wantNothingWritten(t, stuck, ex)
}

// After the time limit nothing is written, not even the alert that ends TLS: it could
// wait for seconds on a peer that reads nothing.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	c, _ := pair(t)
	ex := newTestExchange(t)
	c.begin(ex)
	ex.cancel(errTimeout)
	wantNothingWritten(t, c, ex)
}

// A connection on which a write failed swallows what is written. It carries no other
// request.
func TestCutConnectionIsNotUsedAgain(t *testing.T) {
	c, _, _ := answered(t)
	c.cut = true
	ex := newTestExchange(t)
	c.begin(ex)
	wantNothingWritten(t, c, ex)
}

// A receiver that sends an answer to nothing on an idle connection: the next delivery
// goes over a new one. What it sent appears in no log.
func TestStrayAnswerLaterEndsTheConnection(t *testing.T) {
	var logged strings.Builder
	logTo(t, &logged)
	more, gone := make(chan struct{}), make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		in := bufio.NewReader(c)
		for n := 0; ; n++ {
			s, err := readRequest(in, id)
			if err != nil {
				if id == 1 {
					close(gone)
				}
				return
			}
			r.add(s)
			if id == 2 {
				say(c, refusedAnswer)
				continue
			}
			say(c, ok)
			<-more
			say(c, ok)
		}
	})
	s := newSender(t, loopback())
	wantClass(t, send(t, s, request(rec.url)), work.OK, 200)
	close(more)
	<-gone
	wantClass(t, send(t, s, request(rec.url)), work.Unavailable, 500)
	if got := rec.seen(); len(got) != 2 || got[1].conn != 2 {
		t.Errorf("%+v", got)
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", logged.String())
	}
}
