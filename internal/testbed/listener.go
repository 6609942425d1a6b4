package testbed

import (
	"net"
	"sync"
	"testing"
	"time"
)

// countingListener numbers the connections it accepts.
type countingListener struct {
	net.Listener

	mu      sync.Mutex
	n       int             // connections of others
	own     map[string]bool // local addresses of our own probes: false until accepted
	changed chan struct{}   // closed and replaced when a probe was accepted
}

type countedConn struct {
	net.Conn
	id int
}

// Accept answers with the next connection that is no probe.
func (l *countingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if id := l.count(c); id > 0 {
			return &countedConn{Conn: c, id: id}, nil
		}
		_ = c.Close() // it carried nothing
	}
}

// count numbers c, or answers 0 for a probe.
func (l *countingListener) count(c net.Conn) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := c.RemoteAddr().String()
	if _, probe := l.own[from]; probe {
		l.own[from] = true
		close(l.changed)
		l.changed = make(chan struct{})
		return 0
	}
	l.n++
	return l.n
}

// connections is how many connections were made until now. One may have been made and
// not accepted yet; so it makes one itself, which is accepted after all those.
func (l *countingListener) connections(t testing.TB) int {
	t.Helper()
	probe, from := l.probe(t)
	defer func() { _ = probe.Close() }()
	timer := time.NewTimer(limit(t))
	defer timer.Stop()
	for {
		l.mu.Lock()
		n, accepted, changed := l.n, l.own[from], l.changed
		l.mu.Unlock()
		if accepted {
			l.forget(from)
			return n
		}
		select {
		case <-changed:
		case <-timer.C:
			t.Fatalf("nobody accepts connections at %s", l.Addr())
		}
	}
}

// probe connects from an address that count knows before it can see the connection.
func (l *countingListener) probe(t testing.TB) (net.Conn, string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := net.DialTimeout("tcp", l.Addr().String(), limit(t)) //nolint:noctx // also called when the test's context has ended
	if err != nil {
		t.Fatalf("probe %s: %v", l.Addr(), err)
	}
	if l.own == nil {
		l.own = map[string]bool{}
	}
	l.own[c.LocalAddr().String()] = false
	return c, c.LocalAddr().String()
}

// forget lets the probe's address be somebody else's.
func (l *countingListener) forget(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, from)
}

// connID is the number of a connection, also under TLS; 0 where it has none.
func connID(c net.Conn) int {
	if inner, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = inner.NetConn()
	}
	if counted, ok := c.(*countedConn); ok {
		return counted.id
	}
	return 0
}

// Connections is how many connections were made to the receiver until now, also such
// as carried no request.
func (e *Endpoint) Connections() int {
	e.t.Helper()
	return e.listener.connections(e.t)
}
