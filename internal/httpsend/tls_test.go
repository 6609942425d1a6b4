package httpsend

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// authority signs certificates for the test's receivers.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// file is the authority's certificate as egress.ca_file takes it.
func (a *authority) file(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (a *authority) sign(t *testing.T, leaf x509.Certificate) tls.Certificate {
	t.Helper()
	leaf.SerialNumber = big.NewInt(2)
	if leaf.NotAfter.IsZero() {
		leaf.NotAfter = time.Now().Add(time.Hour)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &leaf, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secure is an HTTPS receiver that counts requests.
func secure(t *testing.T, c *tls.Config) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests.Add(1)
		if r.ProtoMajor != 1 {
			t.Errorf("the request came by %s", r.Proto)
		}
	}))
	s.TLS = c
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, requests
}

// H18: no request goes to a receiver that does not prove who it is.
func TestCertificateTrouble(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	here := []net.IP{net.IPv4(127, 0, 0, 1)}
	c := loopback()
	c.CAFile, c.RequireHTTPS = ours.file(t), true
	s := newSender(t, c)
	for name, x := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"expired":       {&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here, NotAfter: time.Now().Add(-time.Minute)})}}, "expired"},
		"not yet valid": {&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(time.Minute)})}}, "expired"},
		"wrong name":    {&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{DNSNames: []string{"other.example"}})}}, "wrong host"},
		"unknown":       {&tls.Config{Certificates: []tls.Certificate{theirs.sign(t, x509.Certificate{IPAddresses: here})}}, "unknown authority"},
		"for clients":   {&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})}}, "certificate"},
		"TLS 1.1":       {&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here})}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "protocol"},
		"client certificate": {
			&tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: here})}, ClientAuth: tls.RequireAnyClientCert},
			"protocol",
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := secure(t, x.config)
			o := send(t, s, request(url))
			wantClass(t, o, work.TLS, 0)
			if kind, _, _ := strings.Cut(o.Message, ":"); kind != x.want {
				t.Errorf("message %q, want kind %q", o.Message, x.want)
			}
			if n := requests.Load(); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
	for name, answer := range map[string]string{"no TLS": "HTTP/1.0 400 Bad Request\r\n\r\n", "closes": "", "noise": strings.Repeat("x", 100)} {
		t.Run(name, func(t *testing.T) {
			rec := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
				_, _ = c.Read(make([]byte, 1000))
				say(c, answer)
			})
			o := send(t, s, request(strings.Replace(rec.url, "http:", "https:", 1)))
			wantClass(t, o, work.TLS, 0)
			if !strings.HasPrefix(o.Message, "protocol: ") {
				t.Error(o.Message)
			}
		})
	}
}

// The authority of egress.ca_file is trusted, HTTP/1.1 is spoken though the receiver
// would speak HTTP/2, and the connection is kept.
func TestTrustedReceiver(t *testing.T) {
	ours := newAuthority(t)
	c := loopback()
	c.CAFile, c.RequireHTTPS = ours.file(t), true
	url, requests := secure(t, &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})}})
	s := newSender(t, c)
	for range 20 {
		wantClass(t, send(t, s, request(url)), work.OK, 200)
	}
	if n := requests.Load(); n != 20 {
		t.Errorf("%d requests", n)
	}
}

// H17 and the second answer, over TLS: bytes that wait in the TLS layer count too.
func TestOneToOneOverTLS(t *testing.T) {
	ours := newAuthority(t)
	c := loopback()
	c.CAFile = ours.file(t)
	config := &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})}}
	rec := receiveTLS(t, config, func(c net.Conn, s seen) bool {
		switch s.body {
		case "bad":
			return say(c, refusedAnswer)
		case "gone":
			return false
		}
		say(c, ok)
		return say(c, ok)
	})
	s := newSender(t, c)
	sends := 0
	as := func(body string) work.Outcome {
		r := request(rec.url)
		r.Body = []byte(body)
		sends++
		return send(t, s, r)
	}
	for range 100 {
		wantClass(t, as("two"), work.OK, 200)
		wantClass(t, as("bad"), work.Unavailable, 500)
		wantClass(t, as("gone"), work.Reset, 0)
	}
	if n := len(rec.seen()); n != sends {
		t.Errorf("%d POSTs by %d calls", n, sends)
	}
}

// A receiver that never ends the handshake gets rid of us when the request that wanted
// it has timed out: net/http alone would go on.
func TestHandshakeEndsWithTheRequest(t *testing.T) {
	gone := make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, _ *receiver, _ int) {
		_, _ = io.Copy(io.Discard, c)
		close(gone)
	})
	r := request(strings.Replace(rec.url, "http:", "https:", 1))
	r.Timeout = 50 * time.Millisecond
	wantClass(t, send(t, newSender(t, loopback()), r), work.Timeout, 0)
	<-gone
}

func TestCAFileThatIsNone(t *testing.T) {
	c := loopback()
	for _, file := range []string{filepath.Join(t.TempDir(), "none"), "doc.go"} {
		c.CAFile = file
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "egress.ca_file") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestPrefixesThatAreRefused(t *testing.T) {
	for _, p := range []string{"0.0.0.0/0", "::/0"} {
		if _, err := New(Config{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix(p)}}); err == nil {
			t.Errorf("%s passed", p)
		}
	}
}
