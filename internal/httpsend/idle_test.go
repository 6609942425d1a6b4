package httpsend

import (
	"errors"
	"net"
	"testing"
	"time"
)

// idler is a connection that waits, and the other end of it.
func idler(t *testing.T, host string) (*conn, net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	s := &socket{Conn: here}
	return newConn(s, s, host), there
}

func closed(peer net.Conn) bool {
	_ = peer.SetDeadline(longAgo)
	_, err := peer.Write([]byte("x"))
	return errors.Is(err, net.ErrClosed) || err.Error() == "io: read/write on closed pipe"
}

// Connections are kept up to a number for each host and over all, where the one that has
// waited longest goes; the one used last is used again first.
func TestIdleConnections(t *testing.T) {
	p := idleConns{perHost: 2, most: 3}
	defer p.close()
	var conns []*conn
	var peers []net.Conn
	for _, host := range []string{"a", "a", "a", "b", "c"} {
		c, peer := idler(t, host)
		conns, peers = append(conns, c), append(peers, peer)
		p.put(c)
	}
	for i, want := range []bool{true, false, true, false, false} { // the first for c, the third for a
		if closed(peers[i]) != want {
			t.Errorf("connection %d: closed %v", i, !want)
		}
	}
	if p.get("a") != conns[1] || p.get("a") != nil {
		t.Error("not the second one")
	}
	p.put(conns[1])
	c, _ := idler(t, "a")
	p.put(c)
	if p.get("a") != c || p.get("a") != conns[1] {
		t.Error("not the last one first")
	}
}

// A connection that has waited for idleTime is closed, though nothing else happens.
func TestIdleConnectionsEnd(t *testing.T) {
	p := idleConns{perHost: 9, most: 9}
	old, oldPeer := idler(t, "a")
	late, latePeer := idler(t, "a")
	p.put(old)
	p.put(late)
	if p.timer == nil {
		t.Error("nothing will look after them")
	}
	late.since = old.since.Add(time.Second)
	for _, c := range p.expired(old.since.Add(idleTime)) {
		c.Close()
	}
	if !closed(oldPeer) || closed(latePeer) || p.timer == nil {
		t.Error("not the old one alone")
	}
	p.close()
	if !closed(latePeer) || p.get("a") != nil || p.timer != nil {
		t.Error("one is left")
	}
	c, peer := idler(t, "a")
	p.put(c)
	if !closed(peer) || p.timer != nil {
		t.Error("one is kept after the end")
	}
}
