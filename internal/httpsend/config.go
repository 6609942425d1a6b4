package httpsend

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"example.com/whctl/internal/redact"
	"example.com/whctl/internal/work"
)

const (
	defaultPlaces  = 256
	defaultTimeout = 10 * time.Second
	idleTime       = 30 * time.Second // many receivers close an idle connection earlier
	maxHead        = 64 << 10         // bytes of status line and headers, of all answers to a request together
)

// Config says what may be reached and how. The zero value admits every public
// address on the ports 80 and 443, and nothing inside.
type Config struct {
	RequireHTTPS bool           // refuse http://
	AllowHosts   []string       // exact names or *.suffix (names below it); empty: every host. Never opens an inside address by itself
	DenyHosts    []string       // exact names or *.suffix; wins over AllowHosts
	AllowCIDRs   []netip.Prefix // inside addresses that may be reached after all, on any port
	DenyCIDRs    []netip.Prefix // wins over everything
	Ports        []int          // of public addresses; empty: 443, and 80 where http is not refused
	CAFile       string         // PEM, added to the system's roots
	Proxy        string         // "" and "none": no proxy. It resolves names itself: the guard judges its address, the lists of hosts and written addresses only
	Redact       redact.Rules   // what is not kept of answers in JSON
	UserAgent    string
	Now          func() time.Time // the clock of signatures, and of Retry-After dates without a Date; nil: time.Now
	MaxPlaces    int              // requests in flight at most, and idle connections kept per host; 0: 256
}

// Sender makes requests. It may be used by any number of goroutines at once.
type Sender struct {
	guard     *guard
	tls       *tls.Config // of every connection, without the name
	idle      idleConns
	redact    redact.Rules
	userAgent string
	now       func() time.Time
	places    int
	targets   cache[verdict]
	signers   cache[signer]
	plainKeys cache[[]byte]
	resolver  *net.Resolver              // nil: the system's; tests have their own
	connects  func(address string) error // nil; tests count the connections that would be made, and may refuse them
}

// New makes a Sender. Its errors wrap work.ErrConfig and name the setting.
func New(c Config) (*Sender, error) {
	g, err := newGuard(c)
	if err != nil {
		return nil, err
	}
	roots, err := readRoots(c.CAFile)
	if err != nil {
		return nil, err
	}
	s := &Sender{guard: g, redact: c.Redact, userAgent: c.UserAgent, now: c.Now, places: c.MaxPlaces}
	if s.userAgent == "" {
		s.userAgent = "whctl"
	}
	if !httpguts.ValidHeaderFieldValue(s.userAgent) {
		return nil, fmt.Errorf("%w: the name of this program cannot be sent in a header", work.ErrConfig)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.places <= 0 {
		s.places = defaultPlaces
	}
	s.tls = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	s.idle.perHost, s.idle.most = s.places, 2*s.places+64 // over all hosts: idle connections cost descriptors
	return s, nil
}

// Close ends idle connections, and keeps none from now on. Requests in flight go on.
func (s *Sender) Close() { s.idle.close() }

func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: egress.ca_file: %w", work.ErrConfig, err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: egress.ca_file: no certificate in %s", work.ErrConfig, file)
	}
	return roots, nil
}

// readProxy never quotes the URL: it may hold a password.
func readProxy(raw string) (*url.URL, error) {
	if raw == "" || raw == "none" {
		return nil, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return nil, fmt.Errorf("%w: egress.proxy: want none or a URL with http, https or socks5", work.ErrConfig)
	}
	return u, nil
}
