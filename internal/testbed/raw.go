package testbed

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Conn is one connection to a raw receiver.
type Conn struct {
	net.Conn
	R  *bufio.Reader // all reading goes through it
	ID int

	e        *Endpoint
	requests []*Request
}

// Raw starts a receiver that answers whatever serve writes: a goroutine for each
// connection, which is closed when serve returns. Of the options, Handler and LazyBody
// mean nothing here.
func Raw(t testing.TB, serve func(*Conn), options ...ReceiverOptions) *Endpoint {
	t.Helper()
	var o ReceiverOptions
	if len(options) > 0 {
		o = options[0]
	}
	e, l := newEndpoint(t, o)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("receiver %s: %v", e.Address, err)
				}
				return
			}
			wg.Go(func() { e.raw(c, serve) })
		}
	})
	e.closer(func() {
		_ = l.Close() // told by the loop
		close(e.done)
		wg.Wait()
	})
	return e
}

func (e *Endpoint) raw(c net.Conn, serve func(*Conn)) {
	conn := &Conn{Conn: c, R: bufio.NewReader(c), ID: connID(c), e: e}
	over := make(chan struct{})
	broken := make(chan struct{})
	go func() { // the end of the test wakes a serve that reads or writes
		defer close(broken)
		select {
		case <-e.done:
		case <-over:
		}
		_ = c.Close() // the client may have done so
	}()
	serve(conn)
	for _, r := range conn.requests {
		e.journal.finish(r, 0)
	}
	close(over)
	<-broken
}

// Request reads the next request and puts it in the log. Call its Answered before an
// answer is written.
func (c *Conn) Request() (*Request, error) {
	r, err := http.ReadRequest(c.R)
	if err != nil {
		return nil, err
	}
	req := &Request{
		Conn: c.ID, At: time.Now(), Method: r.Method, Host: r.Host, Path: r.URL.Path, Header: r.Header,
		ContentLength: r.ContentLength, left: c.e.done,
	}
	req.Body, err = io.ReadAll(r.Body)
	req.whole = err == nil
	c.e.journal.add(req)
	c.requests = append(c.requests, req)
	return req, err
}

// Reset closes the connection so that the client sees it broken, not ended.
func (c *Conn) Reset() {
	inner := c.Conn
	if layer, ok := inner.(interface{ NetConn() net.Conn }); ok {
		inner = layer.NetConn()
	}
	if counted, ok := inner.(*countedConn); ok {
		inner = counted.Conn
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails on a closed one alone
		_ = tcp.Close()
	}
}

// Trap starts a listener that nothing must ever connect to. The test fails when
// something did.
func Trap(t testing.TB, host string) *Endpoint {
	t.Helper()
	e := Raw(t, func(*Conn) {}, ReceiverOptions{Host: host, Plain: true})
	t.Cleanup(func() { // before the listener goes
		if n := e.listener.connections(t); n > 0 {
			t.Errorf("%d connections were made to %s, which must never be reached", n, e.Address)
		}
	})
	return e
}
