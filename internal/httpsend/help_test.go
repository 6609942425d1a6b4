package httpsend

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/whctl/internal/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback admits the test's own receivers.
func loopback() Config {
	return Config{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		UserAgent:  "whctl/test",
		Now:        func() time.Time { return time.Unix(1614265330, 0) },
	}
}

func newSender(t testing.TB, c Config) *Sender {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func request(url string) Request {
	return Request{
		URL: url, DeliveryID: "d-1", AttemptID: uuid.MustParse("11111111-2222-7333-8444-555555555555"), Attempt: 3, Generation: 2,
		Body: []byte(`{"test": 2432232314}`), Timeout: 10 * time.Second,
	}
}

// seen is a request as the receiver got it.
type seen struct {
	conn   int // counted from 1
	header http.Header
	length int64
	body   string
}

// receiver is a server on a plain socket, for what no decent server does.
type receiver struct {
	url string
	mu  sync.Mutex
	got []seen
	n   int // connections
}

// receive answers each request on each connection by answer, which says whether the
// connection goes on.
func receive(t testing.TB, answer func(c net.Conn, s seen) bool) *receiver {
	t.Helper()
	return receiveWith(t, func(c net.Conn, r *receiver, id int) {
		in := bufio.NewReader(c)
		for {
			s, err := readRequest(in, id)
			if err != nil {
				return
			}
			r.add(s)
			if !answer(c, s) {
				return
			}
		}
	})
}

// corked holds back what is written until it is drawn.
type corked struct {
	net.Conn
	in   bool
	held []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if c.in {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *corked) draw() error {
	c.in = false
	_, err := c.Conn.Write(c.held)
	c.held = nil
	return err
}

// receiveTLS is the same behind TLS. What one call of answer says is one record for
// each say, but leaves in one piece.
func receiveTLS(t testing.TB, config *tls.Config, answer func(c net.Conn, s seen) bool) *receiver {
	t.Helper()
	r := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		cork := &corked{Conn: c}
		secured := tls.Server(cork, config)
		defer secured.Close()
		in := bufio.NewReader(secured)
		for {
			s, err := readRequest(in, id)
			if err != nil {
				return
			}
			r.add(s)
			cork.in = true
			more := answer(secured, s)
			if cork.draw() != nil || !more {
				return
			}
		}
	})
	r.url = strings.Replace(r.url, "http:", "https:", 1)
	return r
}

func receiveWith(t testing.TB, serve func(c net.Conn, r *receiver, id int)) *receiver {
	t.Helper()
	return receiveAt(t, "127.0.0.1:0", serve)
}

func receiveAt(t testing.TB, address string, serve func(c net.Conn, r *receiver, id int)) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	var open sync.Map
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			id := r.connected()
			all.Go(func() {
				defer open.Delete(c)
				defer c.Close()
				serve(c, r, id)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		all.Wait()
	})
	return r
}

func readRequest(in *bufio.Reader, id int) (seen, error) {
	req, err := http.ReadRequest(in)
	if err != nil {
		return seen{}, err
	}
	body, err := io.ReadAll(req.Body)
	return seen{conn: id, header: req.Header, length: req.ContentLength, body: string(body)}, err
}

func (r *receiver) add(s seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, s)
}

func (r *receiver) connected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return r.n
}

func (r *receiver) seen() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.got...)
}

func (r *receiver) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func say(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

func wantClass(t *testing.T, o work.Outcome, class work.Class, status int) {
	t.Helper()
	if o.Class != class || o.Status != status {
		t.Errorf("class %q, status %d (%s), want %q, %d", o.Class, o.Status, o.Message, class, status)
	}
}

func send(t *testing.T, s *Sender, r Request) work.Outcome {
	t.Helper()
	return s.Send(context.Background(), r)
}
