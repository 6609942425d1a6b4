package httpsend

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

var (
	errStale = errors.New("the idle connection was used up before the request was sent")
	errStray = errors.New("bytes came that no request had asked for")
)

// watchedConn is a TCP connection, below TLS where there is TLS, that knows which
// request it carries. It guards three things that net/http leaves to chance:
//
//   - A second answer that was not asked for must not become the next request's. Once
//     the connection has carried a request, bytes that come before the next one is
//     written end it. To look at the socket and to read from it exclude each other, so
//     that there is no moment at which such bytes are seen by nobody. (An answer that
//     arrives after the next request was written cannot be told from the right one.)
//   - Whether anything of a request was written is known for certain: only then may
//     it be tried on another connection.
//   - A receiver that answers and closes before it has read the whole request (413)
//     makes the write fail while its answer waits to be read. The failure is kept from
//     net/http, which would drop the answer.
type watchedConn struct {
	net.Conn
	raw syscall.RawConn

	mu      sync.Mutex
	changed sync.Cond // waiting, dead

	waiting bool      // the one reader has consumed everything there is, and waits for more
	dead    bool      // nothing is written or read any more
	cut     bool      // the peer takes no more of the request; writes are swallowed
	uses    int       // requests carried, with the present one
	owner   *exchange // whose request and answer pass now; nil: idle
	begun   bool      // some of the owner's request has been given to the socket
	sent    int64     // bytes of it that the socket took
	got     int64     // bytes that came since the owner began

	// What tryRead and tryPeek work on; the functions are kept so that none is made
	// for each call.
	buf     []byte
	n       int
	err     error
	read    func(fd uintptr) bool
	pending bool
	peek    func(fd uintptr)
}

func watch(conn net.Conn) (*watchedConn, error) {
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return nil, errors.New("no socket below the connection")
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &watchedConn{Conn: conn, raw: raw}
	c.changed.L = &c.mu
	c.read, c.peek = c.tryRead, c.tryPeek
	return c, nil
}

// begin hands the connection to a request. It waits until the last answer has been
// consumed to its end, for net/http offers a connection for reuse a moment before that;
// whether there was more than the answer, mayWrite looks then.
func (c *watchedConn) begin(ex *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	c.owner, c.begun, c.sent, c.got = ex, false, 0, 0
	if c.uses == 1 {
		_ = c.Conn.SetDeadline(time.Time{}) // set for the handshake; a closed connection tells at the next call
		return
	}
	if !c.waiting && !c.dead {
		stop := context.AfterFunc(ex.ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		defer stop()
		for !c.waiting && !c.dead && ex.ctx.Err() == nil {
			c.changed.Wait()
		}
	}
	if c.cut {
		c.end()
	}
}

// release makes the connection idle after ex.
func (c *watchedConn) release(ex *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == ex {
		c.owner = nil
	}
}

// passed says how many bytes of ex's request were written and how many came back.
func (c *watchedConn) passed(ex *exchange) (sent, got int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != ex {
		return 0, 0
	}
	return c.sent, c.got
}

// refuse sees to it that nothing is written any more; net/http closes the connection
// over it.
func (c *watchedConn) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

// end is called with mu held. It does not close: that waits for the reader, who may be
// waiting for mu.
func (c *watchedConn) end() {
	c.dead = true
	c.changed.Broadcast()
}

// Close also wakes a request that waits in begin.
func (c *watchedConn) Close() error {
	c.refuse()
	return c.Conn.Close()
}

func (c *watchedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	err := c.mayWrite()
	cut := c.cut
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if cut {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += int64(n)
	if err != nil && c.owner != nil && c.sent > 0 && !c.dead && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.cut = true
		return len(p), nil // the reader now finds the answer, or the same failure
	}
	return n, err
}

// mayWrite is called with mu held. The first write of a request on a connection that
// was used before is the last moment at which stray bytes can be told from its answer.
func (c *watchedConn) mayWrite() error {
	if c.dead {
		return errStale
	}
	if c.owner == nil {
		return nil // a handshake, or the alert that closes an idle connection
	}
	if err := c.owner.ctx.Err(); err != nil {
		return err // also no alert: it could block for seconds on a peer that reads nothing
	}
	if c.uses > 1 && !c.begun && (!c.waiting || c.readable()) {
		c.end()
		return errStale
	}
	c.begun = true
	return nil
}

// readable says whether a read would not block: bytes, the peer's end, or a failure.
func (c *watchedConn) readable() bool {
	c.pending = true
	if err := c.raw.Control(c.peek); err != nil {
		return true
	}
	return c.pending
}

func (c *watchedConn) tryPeek(fd uintptr) {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	c.pending = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
}

// Read has one caller at a time: net/http's reading goroutine, or the handshake.
func (c *watchedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.buf = p
	if err := c.raw.Read(c.read); err != nil {
		return 0, err
	}
	return c.n, c.err
}

// tryRead takes what the socket has; it answers false to be called again when there is
// something.
func (c *watchedConn) tryRead(fd uintptr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := syscall.Read(int(fd), c.buf)
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(int(fd), c.buf)
	}
	if errors.Is(err, syscall.EAGAIN) {
		c.waiting = true
		c.changed.Broadcast()
		return false
	}
	c.waiting = false
	switch {
	case err != nil:
		c.n, c.err = 0, os.NewSyscallError("read", err)
	case n == 0:
		c.n, c.err = 0, io.EOF
	case c.uses > 0 && c.owner == nil, c.uses > 1 && !c.begun:
		// An error, not the bytes: net/http would write them to the standard logger.
		c.n, c.err = 0, errStray
		c.end()
	default:
		c.n, c.err = n, nil
		c.got += int64(n)
	}
	return true
}
