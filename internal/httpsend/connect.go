package httpsend

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"
)

// connect gives the exchange a connection of its own, up to the receiver: through the
// proxy and TLS, where there are such.
func (s *Sender) connect(ex *exchange, t *target) error {
	to := t.address
	p := s.guard.proxy
	if p != nil {
		to = proxyAddress(p)
	}
	k, err := s.dial(ex, to)
	if err != nil {
		return atProxy(p, err)
	}
	c, err := s.secured(ex, k, t)
	if err != nil {
		ex.drop(k)
		return err
	}
	ex.conn = newConn(c, k, t.key)
	ex.heard.gotConn(false)
	return nil
}

// secured takes a socket through to the receiver.
func (s *Sender) secured(ex *exchange, k *socket, t *target) (net.Conn, error) {
	if err := ex.hold(k); err != nil {
		return nil, err
	}
	p, c := s.guard.proxy, net.Conn(k)
	if p != nil && p.Scheme == "https" {
		secured, err := s.handshake(ex, c, proxyHost(p))
		if err != nil {
			return nil, atProxy(p, err)
		}
		c = secured
	}
	if err := s.through(ex, c, t); err != nil {
		return nil, err
	}
	if t.url.Scheme != "https" {
		return c, nil
	}
	return s.handshake(ex, c, t.host)
}

func (s *Sender) handshake(ex *exchange, c net.Conn, name string) (net.Conn, error) {
	config := s.tls.Clone()
	config.ServerName = name
	secured := tls.Client(c, config)
	ex.heard.helloBegun()
	err := secured.HandshakeContext(context.Background()) // the socket ends with the parent
	ex.heard.helloEnded(secured.ConnectionState(), err)
	return secured, err
}

// through has the proxy, where there is one, connect to the receiver. To receivers over
// http an http proxy passes each request on by itself.
func (s *Sender) through(ex *exchange, c net.Conn, t *target) error {
	p := s.guard.proxy
	switch {
	case p == nil, !tunnels(p, t.url.Scheme):
		return nil
	case p.Scheme == "socks5":
		return throughSocks(ex, c, p, t.address)
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: t.address}, Host: t.address, Header: http.Header{"User-Agent": {s.userAgent}}}
	if a := proxyAuthorization(p); a != "" {
		req.Header.Set("Proxy-Authorization", a)
	}
	if err := req.Write(c); err != nil {
		return err
	}
	// A reader of its own may be thrown away: behind the proxy nobody speaks before he is
	// spoken to. What belongs to the answer's body is no TLS then.
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, maxHead)), req) //nolint:bodyclose // to close it would read it
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errProxy
	}
	return nil
}

// throughSocks speaks SOCKS 5 (RFC 1928).
func throughSocks(ex *exchange, c net.Conn, p *url.URL, to string) error {
	var auth *proxy.Auth
	if p.User != nil {
		auth = &proxy.Auth{User: p.User.Username()}
		auth.Password, _ = p.User.Password()
	}
	d, err := proxy.SOCKS5("tcp", proxyAddress(p), auth, dialled{c})
	if err != nil {
		return err
	}
	// It is the socket that ends with the parent: with a context of its own, the dialer
	// would set the deadlines its way.
	_, err = d.(proxy.ContextDialer).DialContext(context.Background(), "tcp", to)
	return err
}

// dialled is a dialer that has its connection.
type dialled struct{ c net.Conn }

func (d dialled) Dial(string, string) (net.Conn, error) { return d.c, nil }

func (d dialled) DialContext(context.Context, string, string) (net.Conn, error) { return d.c, nil }

// tunnels says that a proxy makes connections to receivers of that scheme.
func tunnels(p *url.URL, scheme string) bool { return scheme == "https" || p.Scheme == "socks5" }

func proxyAddress(p *url.URL) string {
	port := p.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[p.Scheme]
	}
	return net.JoinHostPort(proxyHost(p), port)
}

// proxyHost is in ASCII, as it is resolved.
func proxyHost(p *url.URL) string {
	if host, why := mapHost(p.Hostname()); why == "" {
		return host
	}
	return p.Hostname()
}

func proxyAuthorization(p *url.URL) string {
	if p.User == nil {
		return ""
	}
	password, _ := p.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.User.Username()+":"+password))
}

// atProxy marks an error on the way to the proxy, where there is one.
func atProxy(p *url.URL, err error) error {
	if p == nil {
		return err
	}
	return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
}
