package httpsend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// pair is a watched connection and its peer.
func pair(t *testing.T) (*watchedConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
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
		"reset": func(peer net.Conn) { _ = peer.(*net.TCPConn).SetLinger(0); peer.Close() },
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
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the reader got %v", err)
	}

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
