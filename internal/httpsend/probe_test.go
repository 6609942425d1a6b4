package httpsend

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// toldBy is the stages of a probe as text: each with its message, an exclamation mark
// before the one that failed.
func toldBy(t *testing.T, s *Sender, r Request) (string, work.Outcome) {
	t.Helper()
	o, stages := s.Probe(context.Background(), r)
	var lines []string
	var took time.Duration
	for i, st := range stages {
		mark := ""
		if !st.OK {
			mark = "!"
		}
		if st.OK == (i == len(stages)-1) && o.Class != work.OK {
			t.Errorf("stage %d of %d: %+v of %+v", i+1, len(stages), st, o)
		}
		if st.Took < 0 || st.Message == "" {
			t.Errorf("%+v", st)
		}
		took += st.Took
		lines = append(lines, mark+st.Name+": "+st.Message)
	}
	if took < o.Latency {
		t.Errorf("the stages took %v, the attempt %v", took, o.Latency)
	}
	return strings.Join(lines, "\n"), o
}

func wantStages(t *testing.T, got string, want ...string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for i := range max(len(lines), len(want)) {
		if i >= len(lines) || i >= len(want) || !strings.HasPrefix(lines[i], want[i]) {
			t.Fatalf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
}

// A probe puts on the wire what a delivery does, once, and comes to the same outcome.
func TestAProbeIsADelivery(t *testing.T) {
	for name, answer := range map[string]string{
		"ok": ok, "401": "HTTP/1.1 401 s3cret\r\nContent-Length: 4\r\n\r\nno!\n", "no HTTP": "hello\r\n\r\n", "closed": "",
		"1xx without end": strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 4096), "999": "HTTP/1.1 999 x\r\n\r\n",
	} {
		rec := answering(t, answer)
		r := request(rec.url + "/hook/TOK-5542?token=Q-9910")
		r.Headers = map[string]string{"Authorization": "Bearer Pw-7731"}
		r.Keys = []Key{secret}
		sent := send(t, newSender(t, loopback()), r)
		probed, stages := newSender(t, loopback()).Probe(context.Background(), r)
		sent.Latency, probed.Latency = 0, 0
		if sent != probed {
			t.Errorf("%s: sent\n%+v, probed\n%+v", name, sent, probed)
		}
		got := rec.seen()
		if len(got) != 2 || fmt.Sprint(got[0].header) != fmt.Sprint(got[1].header) || got[0].body != got[1].body {
			t.Errorf("%s: %d requests: %+v", name, len(got), got)
		}
		for _, private := range []string{"TOK-5542", "Q-9910", "Pw-7731", "MfKQ9r8", "s3cret"} {
			if strings.Contains(fmt.Sprint(stages), private) {
				t.Errorf("%s: %q is told in %v", name, private, stages)
			}
		}
	}
}

func TestStagesOverPlainHTTP(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	r := request(rec.url)
	host := strings.TrimPrefix(rec.url, "http://")
	got, _ := toldBy(t, s, r)
	wantStages(t, got, "url: http to "+host+", which is admitted", "headers: none of the destination's own, not signed", "dns: nothing to resolve",
		"guard: 127.0.0.1 admitted", "connect: "+host, "tls: none: http is not encrypted", "request: POST of 20 bytes", "status: 200 OK")
	r.Headers, r.Keys = map[string]string{"X-A": "1"}, []Key{secret, secret}
	got, _ = toldBy(t, s, r)
	wantStages(t, got, "url", "headers: 1 of the destination's own, signatures: 2", "connect: an open connection is used again", "request", "status: 200 OK")
	r.Signature = work.Signature{Type: work.HMACSHA256Hex, Header: "x-sig", TimestampHeader: "x-time"}
	got, _ = toldBy(t, s, r)
	wantStages(t, got, "url", "headers: 1 of the destination's own, signed in X-Sig and X-Time", "connect", "request", "status")
	r.Signature.Header = "x-a"
	got, o := toldBy(t, s, r)
	wantStages(t, got, "url", "!headers: header \"x-a\" is set twice")
	wantClass(t, o, work.Invalid, 0)
	if n := len(rec.seen()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestStagesOverTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	here := []net.IP{net.IPv4(127, 0, 0, 1)}
	end := time.Date(2046, 1, 2, 3, 4, 5, 0, time.UTC)
	past := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ours.cert.NotAfter = end.AddDate(1, 0, 0)
	c := loopback()
	c.CAFile = ours.file(t)
	before := []string{"url", "headers", "dns", "guard: 127.0.0.1 admitted", "connect: 127.0.0.1:"}
	for name, x := range map[string]struct {
		config *tls.Config
		want   []string
	}{
		"good": {
			&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here, NotAfter: end})}},
			[]string{"tls: TLS 1.3, the certificate ends on 2046-01-02 03:04 UTC", "request", "status: 200"},
		},
		"TLS 1.2": {
			&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here, NotAfter: end})}, MaxVersion: tls.VersionTLS12},
			[]string{"tls: TLS 1.2, the certificate ends on 2046-01-02 03:04 UTC", "request", "status: 200"},
		},
		"expired": {
			&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here, NotBefore: past.AddDate(0, -3, 0), NotAfter: past})}},
			[]string{"!tls: expired: the certificate of 127.0.0.1 is out of its time, from 2025-10-02 03:04 UTC to 2026-01-02 03:04 UTC"},
		},
		"unknown": {
			&tls.Config{Certificates: []tls.Certificate{theirs.sign(t, x509.Certificate{IPAddresses: here})}},
			[]string{"!tls: unknown authority: nobody whom egress.ca_file"},
		},
		"TLS 1.1": {
			&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here})}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			[]string{"!tls: protocol: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := secure(t, x.config)
			got, o := toldBy(t, newSender(t, c), request(url))
			wantStages(t, got, append(before[:5:5], x.want...)...)
			if want := int32(strings.Count(got, "status")); requests.Load() != want || (o.Class == work.OK) != (want == 1) {
				t.Errorf("%d requests, %+v", requests.Load(), o)
			}
		})
	}
}

func TestStagesThatFail(t *testing.T) {
	n := &names{all: map[string][][]string{"in.test.": {{"127.0.0.3"}}, "both.test.": {{"127.0.0.3", "127.0.0.1"}}}}
	s := newSender(t, loopback())
	s.resolver = n.resolver(t)
	quiet := make(chan struct{})
	defer close(quiet)
	silent := receiveWith(t, func(net.Conn, *receiver, int) { <-quiet })
	hanging := receive(t, func(net.Conn, seen) bool { <-quiet; return false })
	closed := receive(t, func(net.Conn, seen) bool { return false })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, freed, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	for _, x := range []struct {
		url   string
		class work.Class
		want  []string
	}{
		{"https://10.0.0.1/TOK-5542", work.Blocked, []string{"!url: address 10.0.0.1 is not public; only egress.allow_cidrs"}},
		{"https://u:p@hooks.example/", work.Invalid, []string{"!url: the URL carries a user name"}},
		{"http://nowhere.test/", work.DNS, []string{"url", "headers", "!dns: nowhere.test: no such host"}},
		{"http://in.test:" + port(t, closed), work.BlockedName, []string{"url", "headers", "dns: 127.0.0.3", "!guard: in.test: address 127.0.0.3 is not public"}},
		// Of several faults net tells the first.
		{"http://both.test:" + freed, work.BlockedName, []string{"url", "headers", "dns: 127.0.0.3, 127.0.0.1", "!guard: both.test: address 127.0.0.3 is not public"}},
		{"http://" + l.Addr().String(), work.Connect, []string{"url", "headers", "dns: nothing", "guard", "!connect: 127.0.0.1: connection refused"}},
		{"https://" + strings.TrimPrefix(silent.url, "http://"), work.Timeout, []string{"url", "headers", "dns", "guard", "connect", "!tls: no connection within 100ms"}},
		{hanging.url, work.Timeout, []string{"url", "headers", "dns", "guard", "connect", "tls", "request", "!status: no answer within 100ms"}},
		{closed.url, work.Reset, []string{"url", "headers", "dns", "guard", "connect", "tls", "request", "!status: 127.0.0.1 closed the connection"}},
	} {
		r := request(x.url)
		if x.class == work.Timeout {
			r.Timeout = 100 * time.Millisecond
		}
		got, o := toldBy(t, s, r)
		wantStages(t, got, x.want...)
		wantClass(t, o, x.class, 0)
	}
	got, _ := toldBy(t, s, request("http://both.test:"+port(t, closed)))
	wantStages(t, got, "url", "headers", "dns: 127.0.0.3, 127.0.0.1", "guard: 127.0.0.1 admitted, 127.0.0.3 refused", "connect: 127.0.0.1:", "tls", "request", "!status")
}

func TestStagesOfAStop(t *testing.T) {
	s := newSender(t, loopback())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o, stages := s.Probe(ctx, request("http://127.0.0.1:1/"))
	if last := stages[len(stages)-1]; !o.Unsent || last.Name != StageConnect || last.OK || !strings.Contains(last.Message, "a stop came before") {
		t.Errorf("%+v, %+v", o, stages)
	}
}

// With a proxy, names and addresses are the proxy's; to be connected means through it.
func TestStagesThroughAProxy(t *testing.T) {
	ours := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{DNSNames: []string{"hooks.example"}})}}
	rec := receiveTLS(t, config, func(c net.Conn, _ seen) bool { return say(c, ok) })
	c := Config{CAFile: ours.file(t)}
	through := func(proxy *receiver, url string) string {
		c.Proxy = proxy.url
		got, _ := toldBy(t, newSender(t, c), request(url))
		return got
	}
	proxy := connecting(t, strings.TrimPrefix(rec.url, "https://"))
	at := strings.TrimPrefix(proxy.url, "http://")
	wantStages(t, through(proxy, "https://hooks.example/x"), "url: https to hooks.example, which", "headers", "dns: of the proxy: nothing to resolve",
		"guard: of the proxy: 127.0.0.1 admitted", "connect: hooks.example, through the proxy at "+at, "tls: TLS 1.3, the certificate", "request", "status: 200 OK")
	wantStages(t, through(proxy, "https://other.example/"), "url", "headers", "dns", "guard", "connect", "!tls: wrong host")
	wantStages(t, through(connecting(t, ""), "https://hooks.example/"), "url", "headers", "dns", "guard", "!connect: ")

	plain := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	wantStages(t, through(plain, "http://hooks.example/"), "url", "headers", "dns", "guard", "connect: hooks.example, through", "tls: none", "request", "status: 200 OK")

	secured := receiveTLS(t, &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})}},
		func(c net.Conn, _ seen) bool { return say(c, ok) })
	wantStages(t, through(secured, "http://hooks.example/"), "url", "headers", "dns", "guard", "connect: hooks.example, through", "tls: none", "request", "status: 200 OK")

	var refusing receiver
	refusing.url = receiveTLS(t, config, func(net.Conn, seen) bool { return false }).url
	wantStages(t, through(&refusing, "https://hooks.example/"), "url", "headers", "dns", "guard", "!connect: wrong host")
}

// The receiver answers early, and reads nothing more: the answer counts.
func TestStagesOfAnEarlyAnswer(t *testing.T) {
	rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			r.add(seen{conn: id, header: req.Header})
			say(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	r := request(rec.url)
	r.Body = []byte(strings.Repeat("x", 8<<20))
	got, o := toldBy(t, newSender(t, loopback()), r)
	wantClass(t, o, work.Rejected, 413)
	wantStages(t, got, "url", "headers", "dns", "guard", "connect", "tls", "request: POST of 8388608 bytes", "!status: 413")
}
