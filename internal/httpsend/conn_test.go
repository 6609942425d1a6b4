package httpsend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// pair is a connection and its peer.
func pair(t *testing.T, host string) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	dialled, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSocket(dialled)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); peer.Close() })
	return newConn(s, s, host), peer
}

// open says whether the other side of c has not been closed.
func open(t *testing.T, c net.Conn) bool {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var looked error
	if err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, looked = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}); err != nil {
		return false
	}
	return errors.Is(looked, syscall.EAGAIN)
}

func TestQuiet(t *testing.T) {
	for name, then := range map[string]func(net.Conn){
		"nothing": nil,
		"bytes":   func(peer net.Conn) { say(peer, ok) },
		"end":     func(peer net.Conn) { peer.Close() },
		"reset":   func(peer net.Conn) { _ = peer.(*net.TCPConn).SetLinger(0); peer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c, peer := pair(t, "h")
			if !c.quiet() {
				t.Fatal("not quiet before anything came")
			}
			if then == nil {
				return
			}
			then(peer)
			// When it has arrived, a read would not wait.
			if err := c.socket.raw.Read(func(fd uintptr) bool {
				var b [1]byte
				_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
				return !errors.Is(err, syscall.EAGAIN)
			}); err != nil {
				t.Fatal(err)
			}
			if c.quiet() {
				t.Error("it could carry another request")
			}
		})
	}
}

// What came with the answer, and was read with it, stands in no socket any more.
func TestQuietLooksIntoTheReader(t *testing.T) {
	c, peer := pair(t, "h")
	say(peer, "ab")
	if _, err := c.in.ReadByte(); err != nil {
		t.Fatal(err)
	}
	if c.in.Buffered() == 1 && c.quiet() {
		t.Error("it could carry another request")
	}
}

// A receiver that answers and reads no further, nor closes, must not hold up the answer.
func TestAnswerWithoutReadingOn(t *testing.T) {
	done := make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		r.add(seen{conn: id, length: req.ContentLength})
		say(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		<-done
	})
	t.Cleanup(func() { close(done) }) // before the receiver's end is waited for
	s := newSender(t, loopback())
	r := request(rec.url)
	r.Body = []byte(strings.Repeat("x", 8<<20))
	for range 2 {
		wantClass(t, send(t, s, r), work.Rejected, 413)
	}
	if n := rec.connections(); n != 2 {
		t.Errorf("%d connections: one that the request did not fit into was used again", n)
	}
}

// A stop ends a request that is only half written; how far it came is not known.
func TestStopWhileALongBodyIsWritten(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			stop()
		}
		<-done
	})
	t.Cleanup(func() { close(done) })
	r := request(rec.url)
	r.Body = []byte(strings.Repeat("x", 8<<20))
	o := newSender(t, loopback()).Send(ctx, r)
	wantClass(t, o, work.Lost, 0)
	if o.Unsent {
		t.Errorf("taken for unsent: %+v", o)
	}
}

// A body that ends with its connection (RFC 9112, section 6.3) is evidence, and costs
// the connection.
func TestBodyThatEndsWithTheConnection(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool {
		say(c, "HTTP/1.1 500 Internal Server Error\r\n\r\nno length")
		return false
	})
	s := newSender(t, loopback())
	for range 2 {
		o := send(t, s, request(rec.url))
		wantClass(t, o, work.Unavailable, 500)
		if o.Excerpt != "no length" {
			t.Errorf("kept %q", o.Excerpt)
		}
	}
	if n := rec.connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// A head that does not come to its end is bounded by the request's time limit, however
// often a byte of it comes.
func TestDrippingHead(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool {
		say(c, "HTTP/1.1 200 OK\r\nX-Slow: ")
		for say(c, "x") {
		}
		return false
	})
	r := request(rec.url)
	r.Timeout = 50 * time.Millisecond
	o := send(t, newSender(t, loopback()), r)
	if o.Class != work.Timeout && o.Class != work.Protocol { // the bound of the head, where that is sooner
		t.Errorf("%+v", o)
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	p := idleConns{perHost: 2, most: 3}
	peers := make(map[string]net.Conn)
	for _, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
		c, peer := pair(t, name[:1])
		peers[name] = peer
		p.put(c)
	}
	closed := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := io.ReadAll(peers[name]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			delete(peers, name)
		}
		for name, peer := range peers {
			if !open(t, peer) {
				t.Errorf("%s was closed", name)
			}
		}
	}
	closed("a3", "a1") // one too many of its host; the oldest of all
	if c := p.get("a"); c == nil || p.get("a") != nil {
		t.Error("want one connection to a")
	} else {
		p.put(c)
	}
	if late := p.expired(time.Now().Add(idleTime / 2)); len(late) != 0 {
		t.Errorf("%d ended before their time", len(late))
	}
	late := p.expired(time.Now().Add(idleTime))
	if len(late) != 3 {
		t.Fatalf("%d ended by their time, want all 3", len(late))
	}
	p.put(late[0])
	p.close()
	closed("b1") // the one that had waited longest
	if c := p.get("b"); c != nil {
		t.Error("there is one after the end")
	}
	p.put(late[1])
	closed("b2")
}
