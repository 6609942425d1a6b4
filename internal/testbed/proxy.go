package testbed

import (
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Link is a TCP proxy between whctl and Postgres that a test can hold or cut.
type Link struct {
	Address string // where clients connect to

	t        testing.TB
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	gate   chan struct{} // closed: bytes pass
	refuse bool
	lines  map[*line]struct{}
	cuts   []*Cut
	closed chan struct{}
}

// Proxy starts a proxy to target (host:port, or the URL of a database), which ends
// with the test. It lets everything pass until told otherwise. It speaks PostgreSQL's
// protocol without TLS.
func Proxy(t testing.TB, target string) *Link {
	t.Helper()
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	l := &Link{t: t, target: target, listener: listen(t, ""), lines: map[*line]struct{}{}, closed: make(chan struct{})}
	l.Address = l.listener.Addr().String()
	l.gate = make(chan struct{})
	close(l.gate)
	l.wg.Go(l.accept)
	t.Cleanup(func() {
		close(l.closed)
		_ = l.listener.Close() // told by the loop
		l.Drop()
		l.wg.Wait()
	})
	return l
}

// URL is the URL of a database, through the proxy.
func (l *Link) URL(database string) string {
	l.t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		l.t.Fatalf("database URL: %v", err)
	}
	u.Host = l.Address
	return u.String()
}

// Hold stops passing bytes in both directions, without a word to either side: neither
// end nor reset. New connections are accepted and hear nothing.
func (l *Link) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gate:
		l.gate = make(chan struct{})
	default: // held already
	}
}

// Pass lets bytes and new connections pass again, also those held back.
func (l *Link) Pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = false
	select {
	case <-l.gate: // they pass
	default:
		close(l.gate)
	}
}

// Release is Pass, said after Hold.
func (l *Link) Release() { l.Pass() }

// Drop closes all connections of this moment on both sides. New ones pass.
func (l *Link) Drop() {
	l.mu.Lock()
	lines := make([]*line, 0, len(l.lines))
	for c := range l.lines {
		lines = append(lines, c)
	}
	l.mu.Unlock()
	for _, c := range lines {
		c.close()
	}
}

// Refuse drops all connections and closes new ones at once, until Pass: a server that
// is down.
func (l *Link) Refuse() {
	l.mu.Lock()
	l.refuse = true
	l.mu.Unlock()
	l.Drop()
}

// Open is how many connections there are.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.t.Errorf("proxy: %v", err)
			}
			return
		}
		c := &line{link: l, client: client, gone: make(chan struct{})}
		l.mu.Lock()
		refuse := l.refuse
		l.lines[c] = struct{}{}
		l.mu.Unlock()
		if refuse || l.ended() {
			c.close()
			continue
		}
		l.wg.Go(c.run)
	}
}

func (l *Link) ended() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// line is one connection of a client and the one to the server that belongs to it.
type line struct {
	link   *Link
	client net.Conn

	mu     sync.Mutex
	server net.Conn
	once   sync.Once
	gone   chan struct{}
	cut    *Cut // the answer to this one's request is awaited
}

func (c *line) close() {
	c.once.Do(func() {
		close(c.gone)
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.client.Close() // the client may have done so
		if c.server != nil {
			_ = c.server.Close() // so may the server
		}
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		delete(c.link.lines, c)
	})
}

// passes waits while the link is held, and is false when the connection is gone.
func (c *line) passes() bool {
	c.link.mu.Lock()
	gate := c.link.gate
	c.link.mu.Unlock()
	select {
	case <-c.gone:
		return false
	default:
	}
	select {
	case <-gate:
		return true
	case <-c.gone:
		return false
	}
}

func (c *line) run() {
	defer c.close()
	if err := c.connect(); err != nil {
		return
	}
	c.link.wg.Go(func() {
		defer c.close()
		c.toClient()
	})
	c.toServer()
}

// connect passes the client's first message on. Encryption is refused: the proxy must
// see where messages end.
func (c *line) connect() error {
	message, code, err := readStartup(c.client)
	for err == nil && (code == sslRequest || code == gssEncRequest) {
		if !c.passes() {
			return net.ErrClosed
		}
		if _, err = c.client.Write([]byte{'N'}); err == nil {
			message, code, err = readStartup(c.client)
		}
	}
	if err != nil {
		return err
	}
	if !c.passes() {
		return net.ErrClosed
	}
	server, err := (&net.Dialer{}).DialContext(c.link.context(c), "tcp", c.link.target)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.server = server
	c.mu.Unlock()
	select {
	case <-c.gone: // between the dial and the line above
		_ = server.Close()
		return net.ErrClosed
	default:
	}
	if _, err := server.Write(message); err != nil {
		return err
	}
	if code == cancelRequest {
		return errors.New("a request to cancel ends with its first message")
	}
	return nil
}
