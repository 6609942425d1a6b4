package httpsend

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

// H30: no proxy comes from the environment.
func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	proxy := trap(t, "127.0.0.1:0")
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy.url)
	}
	rec := receiveAt(t, "127.0.0.2:0", func(c net.Conn, r *receiver, id int) {
		if s, err := readRequest(bufio.NewReader(c), id); err == nil {
			r.add(s)
			say(c, ok)
		}
	})
	c := loopback()
	c.AllowCIDRs = cidrs("127.0.0.2/32")
	s := newSender(t, c)
	if s.guard.proxy != nil {
		t.Error("there is a proxy")
	}
	// net/http never uses a proxy for the loopback; a name hides it.
	n := &names{all: map[string][][]string{"r.test.": {{"127.0.0.2"}}}}
	s.resolver = n.resolver(t)
	wantClass(t, send(t, s, request("http://r.test:"+port(t, rec)+"/")), work.OK, 200)
	wantClass(t, send(t, s, request("https://169.254.169.254/")), work.Blocked, 0)
	if n := proxy.connections(); n != 0 {
		t.Errorf("the proxy saw %d connections", n)
	}
}

// connecting is a proxy that connects everything to address, or refuses.
func connecting(t *testing.T, address string) *receiver {
	t.Helper()
	return receiveWith(t, func(c net.Conn, r *receiver, id int) { tunnel(c, r, id, address) })
}

func tunnel(c net.Conn, r *receiver, id int, address string) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	r.add(seen{conn: id, header: req.Header, body: req.Method + " " + req.RequestURI})
	if address == "" {
		say(c, "HTTP/1.1 403 s3cret reason\r\n\r\n")
		return
	}
	var d net.Dialer
	to, err := d.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	say(c, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(to, c); to.Close() }()
	_, _ = io.Copy(c, to)
}

// A proxy may speak TLS itself, and want a password, which the receiver does not get:
// there is TLS within TLS then, each with a certificate for its own name. A connection is
// used again, and what came on it unasked is noticed through both.
func TestProxyThatSpeaksTLS(t *testing.T) {
	ours := newAuthority(t)
	config := func(leaf x509.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ours.sign(t, leaf)}}
	}
	rec := receiveTLS(t, config(x509.Certificate{DNSNames: []string{"hooks.example"}}), func(c net.Conn, s seen) bool {
		if s.body == "twice" {
			say(c, ok)
		}
		return say(c, ok)
	})
	proxyConfig := config(x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	proxy := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		secured := tls.Server(c, proxyConfig)
		defer secured.Close()
		tunnel(secured, r, id, strings.TrimPrefix(rec.url, "https://"))
	})
	s := newSender(t, Config{RequireHTTPS: true, CAFile: ours.file(t), Proxy: strings.Replace(proxy.url, "http://", "https://jane:s3c%3Aret@", 1)})
	r := request("https://hooks.example/x")
	for _, body := range []string{"", strings.Repeat("x", 1<<20), "twice", ""} {
		r.Body = []byte(body)
		wantClass(t, send(t, s, r), work.OK, 200)
	}
	got := proxy.seen()
	if len(got) != 2 || len(rec.seen()) != 4 {
		t.Errorf("%d connections for %d requests: %+v", len(got), len(rec.seen()), got)
	}
	for _, to := range got {
		if to.body != "CONNECT hooks.example:443" || to.header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("jane:s3c:ret")) {
			t.Errorf("%+v", to)
		}
	}
	for _, to := range rec.seen() {
		if to.header["Proxy-Authorization"] != nil {
			t.Errorf("the receiver gets the proxy's password: %+v", to.header)
		}
	}
	wantClass(t, send(t, s, request("https://other.example/")), work.TLS, 0)
}

// What a proxy refuses, or answers without sense, is no fault of the receiver's TLS.
func TestProxiesThatRefuse(t *testing.T) {
	socks := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		hello := make([]byte, 2)
		if _, err := io.ReadFull(c, hello); err != nil {
			return
		}
		_, _ = io.ReadFull(c, make([]byte, hello[1])) // the methods on offer
		say(c, "\x05\x00")
		_, _ = io.ReadFull(c, make([]byte, 5+len("hooks.example")+2))
		say(c, "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00") // connection refused (RFC 1928, section 6)
	})
	answers := func(text string) *receiver {
		return receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				say(c, text)
			}
		})
	}
	for name, x := range map[string]struct{ proxy, url string }{
		"socks":          {strings.Replace(socks.url, "http:", "socks5:", 1), "https://hooks.example/"},
		"garbage":        {answers("what?\r\n\r\n").url, "https://hooks.example/"},
		"closed":         {answers("").url, "https://hooks.example/"},
		"wants password": {answers("HTTP/1.1 407 s3cret\r\nContent-Length: 0\r\n\r\n").url, "http://hooks.example/"},
	} {
		o := send(t, newSender(t, Config{Proxy: x.proxy}), request(x.url))
		if o.Class != work.Connect || o.Status != 0 || strings.Contains(o.Message, "s3cret") || !strings.Contains(o.Message, "proxy") {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// Over http a proxy gets its password with the request, and may quote it as a receiver
// may quote what is secret of a request.
func TestProxyQuotesItsPassword(t *testing.T) {
	proxy := receive(t, func(c net.Conn, s seen) bool {
		sent := s.header.Get("Proxy-Authorization")
		plain, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(sent, "Basic "))
		text := "cannot use " + sent + ", which is " + string(plain)
		return say(c, fmt.Sprintf("HTTP/1.1 502 X\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	})
	s := newSender(t, Config{Proxy: strings.Replace(proxy.url, "http://", "http://jane:s3cret@", 1)})
	o := send(t, s, request("http://a.example/x"))
	wantClass(t, o, work.Unavailable, 502)
	if o.Excerpt != "cannot use [redacted], which is [redacted]" {
		t.Error(o.Excerpt)
	}
}

// A configured proxy is used, and may be inside; a written inside address is refused
// all the same.
func TestConfiguredProxy(t *testing.T) {
	ours := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{DNSNames: []string{"hooks.example"}})}}
	rec := receiveTLS(t, config, func(c net.Conn, _ seen) bool { return say(c, ok) })
	proxy := connecting(t, strings.TrimPrefix(rec.url, "https://"))
	c := Config{RequireHTTPS: true, CAFile: ours.file(t), Proxy: proxy.url}
	s := newSender(t, c)
	for range 3 {
		wantClass(t, send(t, s, request("https://hooks.example/TOK-5542")), work.OK, 200)
	}
	if got := proxy.seen(); len(got) != 1 || got[0].body != "CONNECT hooks.example:443" {
		t.Errorf("%+v", got)
	}
	wantClass(t, send(t, s, request("https://other.example/")), work.TLS, 0)
	wantClass(t, send(t, s, request("https://10.0.0.1/")), work.Blocked, 0)

	c.DenyCIDRs = cidrs("127.0.0.0/8")
	wantClass(t, send(t, newSender(t, c), request("https://hooks.example/")), work.BlockedName, 0)

	c = Config{RequireHTTPS: true, Proxy: connecting(t, "").url}
	o := send(t, newSender(t, c), request("https://hooks.example/"))
	wantClass(t, o, work.Connect, 0)
	if strings.Contains(o.Message, "s3cret") {
		t.Error(o.Message)
	}
}
