package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/checker"
	"example.com/whctl/internal/testbed"
)

// conduct is one way to treat a request.
type conduct struct {
	name   string
	weight int
	status int    // whose status line is sent; 0: none, or none that ends an answer
	class  string // what the attempt has to end as, several with a blank between
	lazy   bool   // the body is not read before
	keeps  bool   // the connection goes on
	do     func(c *testbed.Conn)
}

// theySay is a conduct that is nothing but words.
func theySay(name string, status int, class, words string) conduct {
	return conduct{name: name, weight: 3, status: status, class: class, do: func(c *testbed.Conn) { say(c, words) }}
}

func say(c *testbed.Conn, words string) bool {
	_, err := io.WriteString(c, words)
	return err == nil
}

// leaves waits until the client has gone.
func leaves(c *testbed.Conn) { _, _ = io.Copy(io.Discard, c.R) }

// forEver repeats words until nobody takes them any more.
func forEver(head, words string) func(*testbed.Conn) {
	return func(c *testbed.Conn) {
		for more := say(c, head); more; {
			more = say(c, words)
		}
	}
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// conducts is every way in which the receiver may treat a request.
func conducts() []conduct {
	const ok, unavailable = "ok", "unavailable"
	body := func(status int, head, body string) string {
		return fmt.Sprintf("HTTP/1.1 %03d X\r\n%sContent-Length: %d\r\n\r\n%s", status, head, len(body), body)
	}
	kept := func(c conduct) conduct { c.keeps = true; return c }
	all := []conduct{
		{name: "fine", weight: 40, status: 200, class: ok, keeps: true, do: func(c *testbed.Conn) { say(c, fine) }},
		{name: "500", weight: 15, status: 500, class: unavailable, keeps: true, do: func(c *testbed.Conn) { say(c, body(500, "", "no")) }},
		kept(theySay("204 with a body", 204, ok, "HTTP/1.1 204 No Content\r\n\r\n"+fine)),
		kept(theySay("304", 304, "redirect", "HTTP/1.1 304 Not Modified\r\n\r\n")),
		kept(theySay("redirect", 302, "redirect", body(302, "Location: /hook\r\n", ""))),
		kept(theySay("redirect for ever", 308, "redirect", body(308, "Location: "+strings.Repeat("x", 9000)+"\r\n", ""))),
		kept(theySay("rate limited", 429, "rate_limited", body(429, "Retry-After: 9223372037\r\n", ""))),
		kept(theySay("two answers in one write", 200, ok, fine+fine)),
		kept(theySay("an answer and half of one", 200, ok, fine+"HTTP/1.1 200 ")),
		kept(theySay("gzip", 500, unavailable, body(500, "Content-Encoding: gzip\r\n", bomb()))),
		kept(theySay("NUL", 500, unavailable, body(500, "", "a\x00b\xff\xfe\u202e\x1b[2J"))),
		kept(theySay("NUL and fine", 200, ok, body(200, "", "\x00"))),
		kept(theySay("informed first", 200, ok, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: x\r\n\r\n"+fine)),
		{name: "close after head", weight: 3, class: "reset", lazy: true, do: func(*testbed.Conn) {}},
		theySay("close after body", 0, "reset", ""),
		theySay("half a status line", 0, "reset protocol", "HTTP/1.1 20"),
		theySay("half a head", 0, "reset", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
		theySay("too little body", 200, ok, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"),
		theySay("too much body", 500, unavailable, "HTTP/1.1 500 X\r\nContent-Length: 1\r\n\r\nabcdef"),
		theySay("chunked garbage", 200, ok, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"),
		theySay("two lengths", 0, "protocol", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
		theySay("NUL in a header", 0, "protocol", "HTTP/1.1 200 OK\r\nX\x00: 1\r\n\r\n"),
		theySay("one long header", 0, "protocol", "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 100<<10)+"\r\n\r\n"),
		theySay("000", 0, "protocol", body(0, "", "")),
		theySay("099", 99, "protocol", body(99, "", "")),
		theySay("101", 101, "protocol", "HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"+fine),
		theySay("199", 0, "reset protocol", "HTTP/1.1 199 X\r\n\r\n"),
		theySay("600", 600, "protocol", body(600, "", "")),
		theySay("999", 999, "protocol", body(999, "", "")),
		theySay("HTTP/0.9", 0, "protocol", "<html>200 OK</html>\r\n"),
		theySay("HTTP/2", 0, "protocol", "\x00\x00\x12\x04\x00\x00\x00\x00\x00PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		theySay("an alert", 0, "protocol", "\x15\x03\x03\x00\x02\x02\x28"),
		{name: "an alert below TLS", weight: 3, class: "tls protocol reset", do: func(c *testbed.Conn) {
			to := c.Conn
			if secured, ok := to.(*tls.Conn); ok {
				to = secured.NetConn()
			}
			_, _ = io.WriteString(to, "\x15\x03\x03\x00\x02\x02\x28")
		}},
		{name: "413 before the body", weight: 5, status: 413, class: "rejected", lazy: true, do: func(c *testbed.Conn) {
			say(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
		}},
		{name: "stray bytes later", weight: 3, status: 200, class: ok, do: func(c *testbed.Conn) { _ = say(c, fine) && say(c, "stray\r\n") }},
		{name: "reset", weight: 3, class: "reset", do: func(c *testbed.Conn) { c.Reset() }},
		{name: "fine and reset", weight: 3, status: 200, class: "ok reset", do: func(c *testbed.Conn) { say(c, fine); c.Reset() }},
		{name: "endless headers", weight: 2, class: "protocol", do: forEver("HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("x", 100)+"\r\n")},
		{name: "endless information", weight: 2, class: "protocol", do: forEver("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")},
		{name: "endless body", weight: 2, status: 200, class: ok, do: forEver("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "400\r\n"+strings.Repeat("x", 1024)+"\r\n")},
		{name: "a body that stands still", weight: 2, status: 500, class: unavailable, do: func(c *testbed.Conn) {
			say(c, "HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\nab")
			leaves(c)
		}},
		{name: "hangs", weight: 2, class: "timeout", do: leaves},
		{name: "slow head", weight: 2, class: "timeout", do: slowly},
	}
	return all
}

// slowly sends a head a byte at a time, which is never whole.
func slowly(c *testbed.Conn) {
	left := make(chan struct{})
	go func() { defer close(left); leaves(c) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, b := range "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 10000) {
		say(c, string(b))
		select {
		case <-tick.C:
		case <-left:
			return
		}
	}
}

// bomb is a megabyte in a kilobyte.
func bomb() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, 1<<20)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

// treated is a request as it was treated.
type treated struct {
	checker.Seen
	conduct
}

// misbehaver is a receiver that treats each request by chance; the chance is a matter of
// the seed and the request alone.
type misbehaver struct {
	t        *testing.T
	seed     uint64
	conducts []conduct
	total    int

	mu  sync.Mutex
	log []*treated
}

func newMisbehaver(t *testing.T, seed uint64) *misbehaver {
	m := &misbehaver{t: t, seed: seed, conducts: conducts()}
	for _, c := range m.conducts {
		m.total += c.weight
	}
	return m
}

// chance is a number below n that follows from the seed and what it is for.
func (m *misbehaver) chance(what string, n int) int {
	sum := sha256.Sum256([]byte(fmt.Sprint(m.seed, " ", what)))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(n))
}

func (m *misbehaver) choose(key string) conduct {
	at := m.chance(key, m.total)
	for _, c := range m.conducts {
		if at -= c.weight; at < 0 {
			return c
		}
	}
	panic("weights")
}

// serve treats the requests of one connection. One of fifty is closed unread.
func (m *misbehaver) serve(c *testbed.Conn) {
	if m.chance(c.LocalAddr().String()+fmt.Sprint(c.ID), 50) == 0 {
		return
	}
	for {
		if _, err := c.R.Peek(1); err != nil {
			return
		}
		r, err := http.ReadRequest(c.R)
		if err != nil {
			m.t.Errorf("a request that was begun: %v", err)
			return
		}
		e := m.enter(r)
		if !e.lazy {
			var body bytes.Buffer
			if n, err := body.ReadFrom(r.Body); err != nil || n != r.ContentLength {
				m.t.Errorf("%s: a body of %d bytes, announced as %d: %v", e.DeliveryID, n, r.ContentLength, err)
			}
			sum := sha256.Sum256(body.Bytes())
			e.BodySHA256 = hex.EncodeToString(sum[:])
		}
		m.finish(e)
		e.do(c)
		if !e.keeps {
			return
		}
	}
}

// enter puts a request into the log as soon as its head has been read.
func (m *misbehaver) enter(r *http.Request) *treated {
	e := &treated{Seen: checker.Seen{
		DeliveryID: r.Header.Get("Idempotency-Key"), AttemptID: r.Header.Get("X-Webhook-Attempt-Id"), Started: time.Now(),
	}}
	e.conduct = m.choose(e.DeliveryID)
	e.Generation, _ = strconv.Atoi(r.Header.Get("X-Webhook-Generation"))
	e.Attempt, _ = strconv.Atoi(r.Header.Get("X-Webhook-Attempt"))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, e)
	return e
}

// finish notes what will be answered, before the client can see it.
func (m *misbehaver) finish(e *treated) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Status, e.Finished = e.conduct.status, time.Now()
}
