package httpsend

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// Two names on one address and port: a connection belongs to the name it was made for.
// It carries no other name's rows, and both the handshake and the request name the right
// one.
func TestConnectionsBelongToAName(t *testing.T) {
	ours := newAuthority(t)
	var mu sync.Mutex
	owner, requests := map[string]string{}, 0 // by the connection
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		requests++
		name := r.TLS.ServerName
		if owner[r.RemoteAddr] == "" {
			owner[r.RemoteAddr] = name
		}
		if host, _, _ := net.SplitHostPort(r.Host); host != name || r.Header.Get("X-Row-Of") != name || owner[r.RemoteAddr] != name {
			t.Errorf("a connection of %s, made for %s: request to %s with a row of %s", owner[r.RemoteAddr], name, r.Host, r.Header.Get("X-Row-Of"))
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{DNSNames: []string{"*.test"}})}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	c := loopback()
	c.CAFile, c.RequireHTTPS = ours.file(t), true
	s := newSender(t, c)
	n := &names{all: map[string][][]string{"a.test.": {{"127.0.0.1"}}, "b.test.": {{"127.0.0.1"}}}}
	s.resolver = n.resolver(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				name := []string{"a.test", "b.test"}[(i+j)%2]
				r := request(fmt.Sprintf("https://%s:%d/", name, server.Listener.Addr().(*net.TCPAddr).Port))
				r.Headers = map[string]string{"X-Row-Of": name}
				wantClass(t, send(t, s, r), work.OK, 200)
			}
		})
	}
	all.Wait()
	if requests != 200 || len(owner) >= 200 {
		t.Errorf("%d requests over %d connections; want 200 over fewer", requests, len(owner))
	}
}

// A compressed answer is neither asked for nor unpacked: what is kept of it is bounded
// before, and a small one cannot become a large one.
func TestAnswersAreNotUnpacked(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(bytes.Repeat([]byte("jane "), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rec := answering(t, fmt.Sprintf("HTTP/1.1 500 X\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", packed.Len(), packed.String()))
	o := send(t, newSender(t, loopback()), request(rec.url))
	wantClass(t, o, work.Unavailable, 500)
	if strings.Contains(o.Excerpt, "jane jane") || !strings.HasSuffix(o.Excerpt, bothMark) {
		t.Errorf("%.100q", o.Excerpt)
	}
	if got := rec.seen()[0].header; got["Accept-Encoding"] != nil {
		t.Errorf("Accept-Encoding: %q", got["Accept-Encoding"])
	}
}

// Informational answers that come slowly do not extend the time limit. (Without it
// these would go on until the bound for heads.)
func TestInformationDoesNotExtendTheTimeLimit(t *testing.T) {
	gone := make(chan struct{})
	rec := receive(t, func(c net.Conn, _ seen) bool {
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, c)
		}()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for say(c, "HTTP/1.1 102 Processing\r\nX: "+strings.Repeat("x", 1000)+"\r\n\r\n") {
			select {
			case <-tick.C:
			case <-gone:
				return false
			}
		}
		return false
	})
	r := request(rec.url)
	r.Timeout = 100 * time.Millisecond
	wantClass(t, send(t, newSender(t, loopback()), r), work.Timeout, 0)
	<-gone
}
