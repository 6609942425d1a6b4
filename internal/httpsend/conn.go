package httpsend

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"syscall"
	"time"
)

var errLongHead = errors.New("the answer's head is too long")

// longAgo is a deadline that breaks off whatever waits.
var longAgo = time.Unix(1, 0)

// socket is a TCP connection, below TLS where there is TLS. One goroutine reads at a
// time, and one writes.
type socket struct {
	net.Conn
	raw  syscall.RawConn
	sent int64 // bytes that were taken of the request in hand

	breakOff func() // ends whatever waits for the socket, at once and for good

	// look makes Read say syscall.EAGAIN instead of waiting. What it works on stands here,
	// and its function is kept, as breakOff is, so that none is made for each call.
	look bool
	take func(fd uintptr)
	buf  []byte
	n    int
	err  error
}

func newSocket(c net.Conn) (*socket, error) {
	sys, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("no socket below the connection")
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: c, raw: raw}
	s.breakOff = func() { _ = c.SetDeadline(longAgo) } // a closed one waits for nothing
	s.take = func(fd uintptr) { s.n, s.err = syscall.Read(int(fd), s.buf) }
	return s, nil
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.sent += int64(n)
	return n, err
}

func (s *socket) Read(p []byte) (int, error) {
	if !s.look || len(p) == 0 {
		return s.Conn.Read(p)
	}
	s.buf = p
	err := s.raw.Control(s.take)
	s.buf = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, s.err
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// conn is a connection to a receiver, for one request at a time.
type conn struct {
	net.Conn         // the socket, or TLS above it
	socket   *socket // to break it off: closing TLS would write, and could wait
	host     string  // whose requests it may carry
	in       *bufio.Reader
	left     int64     // bytes that may still be read
	since    time.Time // idle
	one      [1]byte
}

func newConn(c net.Conn, s *socket, host string) *conn {
	k := &conn{Conn: c, socket: s, host: host, left: math.MaxInt64}
	k.in = bufio.NewReader(limited{k})
	return k
}

// limited is a connection that gives no more than it has left.
type limited struct{ c *conn }

func (l limited) Read(p []byte) (int, error) {
	if l.c.left <= 0 {
		return 0, errLongHead
	}
	n, err := l.c.Conn.Read(p[:min(int64(len(p)), l.c.left)])
	l.c.left -= int64(n)
	return n, err
}

// quiet says that the connection is open and nothing has come that no request has asked
// for: a second answer must not become the next request's. Bytes may wait in the
// reader, in TLS, or in the socket. What is no answer, as a ticket of TLS 1.3, is
// consumed on the way. (An answer that comes after the next request was written cannot
// be told from the right one.)
func (c *conn) quiet() bool {
	if c.in.Buffered() > 0 {
		return false
	}
	c.socket.look = true
	n, err := c.Conn.Read(c.one[:])
	c.socket.look = false
	return n == 0 && errors.Is(err, syscall.EAGAIN)
}
