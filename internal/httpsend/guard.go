package httpsend

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"

	"example.com/whctl/internal/work"
)

const (
	receiveBuffer = 32 << 10 // bytes
	segment       = 1448     // bytes: what an Ethernet frame holds
)

// guard decides which hosts and addresses may be reached. The tables of what is
// inside are those of the ssrf package; what it leaves open is added here: a deny list
// that wins over the allow list, ports that depend on the address, zones, and IPv4
// addresses embedded in IPv6 ones.
type guard struct {
	requireHTTPS bool
	hosts        []string // mapped; a suffix begins with "."
	allow, deny  []netip.Prefix
	ports        []uint16
	proxy        *url.URL // nil: none
	special      *ssrf.Guardian
}

func newGuard(c Config) (*guard, error) {
	g := &guard{requireHTTPS: c.RequireHTTPS, special: ssrf.New()}
	var err error
	if g.allow, err = prefixes("egress.allow_cidrs", c.AllowCIDRs); err != nil {
		return nil, err
	}
	if g.deny, err = prefixes("egress.deny_cidrs", c.DenyCIDRs); err != nil {
		return nil, err
	}
	for _, p := range g.allow {
		if p.Bits() == 0 {
			return nil, fmt.Errorf("%w: egress.allow_cidrs: %s is everything; name the addresses that are meant", work.ErrConfig, p)
		}
	}
	for _, pattern := range c.AllowHosts {
		name, suffix := strings.CutPrefix(pattern, "*.")
		host, why := mapHost(name)
		if why != "" {
			return nil, fmt.Errorf("%w: egress.allow_hosts: %q: %s", work.ErrConfig, pattern, why)
		}
		if suffix {
			host = "." + host
		}
		g.hosts = append(g.hosts, host)
	}
	for _, p := range c.Ports {
		if p < 1 || p > 65535 {
			return nil, fmt.Errorf("%w: egress.ports: %d is no port", work.ErrConfig, p)
		}
		g.ports = append(g.ports, uint16(p))
	}
	if len(g.ports) == 0 {
		g.ports = []uint16{443}
		if !c.RequireHTTPS {
			g.ports = append(g.ports, 80)
		}
	}
	g.proxy, err = readProxy(c.Proxy)
	return g, err
}

// prefixes writes IPv4-mapped prefixes as IPv4, as the addresses they are held
// against are.
func prefixes(setting string, in []netip.Prefix) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, p := range in {
		if p.IsValid() && p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if !p.IsValid() {
			return nil, fmt.Errorf("%w: %s: not a prefix", work.ErrConfig, setting)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// admitsHost says whether egress.allow_hosts lets host pass.
func (g *guard) admitsHost(host string) bool {
	return len(g.hosts) == 0 || slices.ContainsFunc(g.hosts, func(pattern string) bool {
		return host == pattern || pattern[0] == '.' && strings.HasSuffix(host, pattern)
	})
}

// judge says why an address may not be reached, or nil. It names the setting that
// would admit it.
func (g *guard) judge(addr netip.Addr, port uint16) *refusal {
	addr = addr.WithZone("").Unmap()
	if r := g.denied(addr); r != nil {
		return r
	}
	if contains(g.allow, addr) {
		for _, a := range embedded(addr) {
			if !contains(g.allow, a) && g.special.SafeAddr(a) != nil {
				return blocked("address %s leads to the inside address %s; only egress.allow_cidrs can admit that", addr, a)
			}
		}
		return nil
	}
	if g.special.SafeAddr(addr) != nil {
		return blocked("address %s is not public; only egress.allow_cidrs can admit it", addr)
	}
	return g.judgePort(port)
}

func (g *guard) denied(addr netip.Addr) *refusal {
	for _, a := range append(embedded(addr), addr) {
		if contains(g.deny, a) {
			return blocked("address %s is refused by egress.deny_cidrs", addr)
		}
	}
	return nil
}

// judgePort is for public addresses.
func (g *guard) judgePort(port uint16) *refusal {
	if !slices.Contains(g.ports, port) {
		return blocked("port %d is not admitted; egress.ports names those that are", port)
	}
	return nil
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// embedded lists the IPv4 addresses that a translator, relay or tunnel would take
// out of an IPv6 address: IPv4-compatible, NAT64 (RFC 6052, 8215), 6to4, Teredo. A
// translator with a prefix of its own cannot be known: that is for deny_cidrs.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	four := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	teredo := func() netip.Addr { return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}) }
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr), netip.MustParsePrefix("64:ff9b:1::/48").Contains(addr):
		return []netip.Addr{four(12)}
	case netip.MustParsePrefix("2002::/16").Contains(addr):
		return []netip.Addr{four(2)}
	case netip.MustParsePrefix("2001::/32").Contains(addr):
		return []netip.Addr{four(4), teredo()}
	case netip.MustParsePrefix("::/96").Contains(addr) && !addr.IsLoopback() && !addr.IsUnspecified():
		return []netip.Addr{four(12)}
	}
	return nil
}

// dial connects to an address that the guard has judged, after the name was resolved
// and right before the connection is made. With a proxy every connection goes there:
// naming it in egress.proxy admits its address, unless it is denied.
func (s *Sender) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	d := net.Dialer{Resolver: s.resolver, ControlContext: func(_ context.Context, _, address string, socket syscall.RawConn) error {
		if err := s.guard.dialled(address); err != nil {
			return err
		}
		return socket.Control(bound)
	}}
	// The transport lets a dial go on when its request has given up: it ends with the
	// time limit of the request that asked for it, and so does the handshake.
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	if ex != nil {
		d.Deadline = ex.deadline
	}
	conn, err := d.DialContext(ctx, network, hostPort)
	if err != nil {
		return nil, err
	}
	w, err := watch(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if ex != nil {
		err = conn.SetDeadline(ex.deadline)
	}
	return w, err
}

// dialled judges an address that is about to be connected to. Written addresses were
// judged before: this one came from a name, and what a name stands for changes.
func (g *guard) dialled(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusal{class: work.BlockedName, text: "the address could not be judged"}
	}
	judged := g.judge(ap.Addr(), ap.Port())
	if g.proxy != nil {
		judged = g.denied(ap.Addr().WithZone("").Unmap())
	}
	if judged == nil {
		return nil
	}
	return &refusal{class: work.BlockedName, text: judged.text}
}

// bound keeps small what an answer without end can push into the buffers of both
// kernels before it is noticed that the connection was closed. The sender's buffer
// grows with the segment, which is 64 KiB on the loopback: megabytes. A kernel that
// does not know an option is as good as one without it.
func bound(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, segment)
}
