package httpsend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// A receiver that answers before it has read the body, and neither reads on nor closes,
// has answered. Nothing reads the body any more when the call has returned, and the
// connection carries no other request.
func TestAnswerWithoutReadingOn(t *testing.T) {
	done := make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			r.add(seen{conn: id, header: req.Header})
			say(c, "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")
			<-done
		}
	})
	defer close(done)
	s := newSender(t, loopback())
	r := request(rec.url)
	r.Timeout = time.Hour
	r.Body = make([]byte, 16<<20)
	for n := range 2 {
		wantClass(t, send(t, s, r), work.Rejected, 409)
		clear(r.Body) // the race detector would tell
		if got := rec.connections(); got != n+1 {
			t.Errorf("%d connections for %d requests", got, n+1)
		}
	}
}

// A stop breaks off a write that waits for a receiver who does not read.
func TestStopWhileWriting(t *testing.T) {
	done, begun := make(chan struct{}), make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		_, _ = io.ReadFull(c, make([]byte, 1000))
		close(begun)
		<-done
	})
	defer close(done)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-begun; cancel() }()
	r := request(rec.url)
	r.Timeout = time.Hour
	r.Body = make([]byte, 64<<20)
	o := newSender(t, loopback()).Send(ctx, r)
	clear(r.Body)
	wantClass(t, o, work.Lost, 0)
	if o.Unsent || o.Message != "a stop broke the request off: its effect is unknown" {
		t.Errorf("%+v", o)
	}
}

// A stop also breaks off a handshake, and nothing was sent then.
func TestStopWhileConnecting(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	rec := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		_, _ = c.Read(make([]byte, 100))
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	r := request(strings.Replace(rec.url, "http:", "https:", 1))
	r.Timeout = time.Hour
	o := newSender(t, loopback()).Send(ctx, r)
	wantClass(t, o, work.Lost, 0)
	if !o.Unsent {
		t.Errorf("%+v", o)
	}
}

// A body may end with its connection, in chunks with a trailer, or at once; the first
// costs the connection, and so do HTTP/1.0, a receiver that says that it closes, and one
// that announces a body where none is allowed.
func TestWhichConnectionsAreUsedAgain(t *testing.T) {
	for name, x := range map[string]struct {
		answer      string
		excerpt     string
		connections int
	}{
		"until the end": {"HTTP/1.1 200 OK\r\n\r\nfine", "fine", 3},
		"1.0":           {"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfine", "fine", 3},
		"close":         {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfine", "fine", 3},
		"length":        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", "fine", 1},
		"chunks":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\nX-Sum: 1\r\n\r\n", "fine", 1},
		"none":          {"HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		"none, 0":       {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "", 1},
		"none, length":  {"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", "", 3}, // it may still come
		"none, chunks":  {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "", 3},
		"no chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			rec := receive(t, func(c net.Conn, _ seen) bool {
				say(c, x.answer)
				return name != "until the end"
			})
			s := newSender(t, loopback())
			for range 3 {
				r := request(rec.url)
				r.SuccessBodyMax = 100
				o := send(t, s, r)
				wantClass(t, o, work.OK, o.Status)
				if o.Excerpt != x.excerpt || o.Message != "" {
					t.Errorf("%+v", o)
				}
			}
			if n := rec.connections(); n != x.connections {
				t.Errorf("%d connections, want %d", n, x.connections)
			}
			if n := len(rec.seen()); n != 3 {
				t.Errorf("%d POSTs by 3 calls", n)
			}
		})
	}
}

// The whole head, byte for byte: the order is fixed.
func TestTheHead(t *testing.T) {
	got := make(chan string, 1)
	rec := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		b := make([]byte, 4096)
		n, _ := c.Read(b) // a small request comes in one piece
		got <- string(b[:n])
		say(c, ok)
	})
	r := request(rec.url + "/a%20b?c")
	r.Headers = map[string]string{"x-b": " 2 ", "X-A": "1"}
	wantClass(t, send(t, newSender(t, loopback()), r), work.OK, 200)
	want := "POST /a%20b?c HTTP/1.1\r\nHost: " + strings.TrimPrefix(rec.url, "http://") + "\r\nX-A: 1\r\nX-B: 2\r\nContent-Type: application/json\r\n" +
		"User-Agent: whctl/test\r\nIdempotency-Key: d-1\r\nX-Webhook-Attempt-Id: 11111111-2222-7333-8444-555555555555\r\nX-Webhook-Attempt: 3\r\n" +
		"X-Webhook-Generation: 2\r\nwebhook-id: d-1\r\nContent-Length: 20\r\nwebhook-timestamp: 1614265330\r\n\r\n" + `{"test": 2432232314}`
	if text := <-got; text != want {
		t.Errorf("got\n%q, want\n%q", text, want)
	}
}

// An http proxy is told the whole URL of an http receiver, and who asks; a SOCKS proxy
// makes a connection.
func TestPlainReceiversThroughProxies(t *testing.T) {
	lines := make(chan string, 1)
	proxy := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			lines <- req.RequestURI + " " + req.Host + " " + req.Header.Get("Proxy-Authorization")
			say(c, ok)
		}
	})
	s := newSender(t, Config{Proxy: strings.Replace(proxy.url, "http://", "http://jane:s3cret@", 1)})
	for _, host := range []string{"a.example", "b.example"} {
		wantClass(t, send(t, s, request("http://"+host+"/x?y=1")), work.OK, 200)
		want := fmt.Sprintf("http://%s/x?y=1 %s Basic %s", host, host, base64.StdEncoding.EncodeToString([]byte("jane:s3cret")))
		if got := <-lines; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if n := proxy.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}

	socks := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		hello := make([]byte, 4)
		_, _ = io.ReadFull(c, hello) // none, or a password
		say(c, "\x05\x02")
		secret := make([]byte, 3+len("jane")+len("s3cret"))
		_, _ = io.ReadFull(c, secret)
		say(c, "\x01\x00")
		to := make([]byte, 5+len("a.example")+2)
		_, _ = io.ReadFull(c, to)
		say(c, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		lines <- string(bytes.TrimLeft(secret, "\x01")) + string(to[5:14]) + req.RequestURI
		say(c, ok)
	})
	s = newSender(t, Config{Proxy: strings.Replace(socks.url, "http://", "socks5://jane:s3cret@", 1)})
	wantClass(t, send(t, s, request("http://a.example/x")), work.OK, 200)
	if got := <-lines; got != "\x04jane\x06s3creta.example/x" {
		t.Errorf("%q", got)
	}
}
