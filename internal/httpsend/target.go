package httpsend

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// target is a URL made ready for sending: its host in ASCII, as it is judged and
// dialled.
type target struct {
	url     *url.URL
	host    string // for messages
	address string // host and port, as they are dialled
	key     string // of the connections that may carry its requests
	opening string // of the request: its first line, and Host
	secret  string // the proxy's, that goes with each request as Proxy-Authorization; "": none
}

// verdict is what is known about a URL without the network: one of both is nil.
type verdict struct {
	target  *target
	refusal *refusal
}

// CheckURL says why nothing could ever be sent to raw, or nil. It asks no name server:
// a name that resolves to a refused address is refused when it is dialled. The error
// wraps work.ErrConfig, names the setting that would admit the URL where there is one,
// and quotes at most its host.
func (s *Sender) CheckURL(raw string) error {
	if r := s.targetOf(raw).refusal; r != nil {
		return r
	}
	return nil
}

func (s *Sender) targetOf(raw string) verdict {
	return s.targets.get(raw, func(raw string) verdict {
		t, r := s.guard.target(raw)
		return verdict{target: t, refusal: r}
	})
}

func (g *guard) target(raw string) (*target, *refusal) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, invalid("the URL cannot be read") // the parser's error quotes it
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, invalid("the URL's scheme is neither https nor http")
	case u.User != nil:
		return nil, invalid("the URL carries a user name or password: give credentials as a header")
	case strings.Contains(raw, "#"):
		return nil, invalid("the URL has a fragment (#), which is never sent")
	case strings.Contains(u.RawQuery, " "):
		return nil, invalid("the URL has a blank in its query, which would end the request line: write it as %%20")
	}
	host, why := mapHost(u.Hostname())
	if why != "" {
		return nil, invalid("the URL's host cannot be used: %s", why)
	}
	port := uint16(443)
	if u.Scheme == "http" {
		port = 80
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return nil, invalid("the URL's port is none")
		}
		port = uint16(n)
	}
	if r := g.admits(u.Scheme, host, port); r != nil {
		return nil, r
	}
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	mapped := *u
	mapped.Host = host
	if strings.Contains(host, ":") {
		mapped.Host = "[" + host + "]"
	}
	if u.Port() != "" {
		mapped.Host = address
	}
	t := &target{url: &mapped, host: host, address: address, key: u.Scheme + "://" + address}
	uri := mapped.RequestURI()
	name, _, zoned := strings.Cut(mapped.Host, "%") // a zone means nothing to others (RFC 6874, section 4)
	if zoned {
		name += mapped.Host[strings.LastIndex(mapped.Host, "]"):]
	}
	if g.proxy != nil && !tunnels(g.proxy, u.Scheme) {
		t.key, t.secret = "proxy", proxyAuthorization(g.proxy)
		uri = u.Scheme + "://" + name + uri // RFC 9112, section 3.2.2
	}
	t.opening = "POST " + uri + " HTTP/1.1\r\nHost: " + name + "\r\n"
	return t, nil
}

// admits judges what is written: nothing is resolved.
func (g *guard) admits(scheme, host string, port uint16) *refusal {
	if scheme == "http" && g.requireHTTPS {
		return blocked("http is refused by egress.require_https")
	}
	if r := g.judgeHost(host); r != nil {
		return r
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.judge(addr, port)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		r := g.judge(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		if r != nil && g.judge(netip.IPv6Loopback(), port) != nil {
			return blocked("%s: %s", host, r.text)
		}
		return nil
	}
	if len(g.allow) == 0 {
		// Only a public address is left to the name, and those have their ports.
		return g.judgePort(port)
	}
	return nil
}
