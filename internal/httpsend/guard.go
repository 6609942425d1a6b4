package httpsend

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"example.com/whctl/internal/work"
)

// guard decides which hosts and addresses may be reached. Lists of hosts only ever take
// away: no name opens an inside address, only egress.allow_cidrs does, and what is denied
// stays denied.
type guard struct {
	requireHTTPS          bool
	allowHosts, denyHosts hostList // no allowHosts: every host
	allow, deny           []netip.Prefix
	ports                 []uint16
	proxy                 *url.URL // nil: none
	special               special
}

func newGuard(c Config) (*guard, error) {
	g := &guard{requireHTTPS: c.RequireHTTPS, special: newSpecial()}
	var err error
	if g.allow, err = prefixes("egress.allow_cidrs", c.AllowCIDRs, shortest{ipv4: 8, ipv6: 7}); err != nil {
		return nil, err
	}
	if g.deny, err = prefixes("egress.deny_cidrs", c.DenyCIDRs, shortest{ipv4: 1, ipv6: 1}); err != nil {
		return nil, err
	}
	if g.allowHosts, err = readHosts("egress.allow_hosts", c.AllowHosts); err != nil {
		return nil, err
	}
	if g.denyHosts, err = readHosts("egress.deny_hosts", c.DenyHosts); err != nil {
		return nil, err
	}
	if err = g.denyHosts.noAddresses(); err != nil {
		return nil, err
	}
	for _, p := range c.Ports {
		if p < 1 || p > 65535 {
			return nil, fmt.Errorf("%w: egress.ports: %d is no port: write numbers from 1 to 65535", work.ErrConfig, p)
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

// shortest bounds the prefixes of a list, in bits. What is allowed may be as wide as the
// private ranges themselves, 10.0.0.0/8 and fc00::/7: whatever is wider takes in half the
// world. A prefix that has all of IPv4 inside it, as 64:ff9b::/96 or 2002::/16, opens
// only the way: see judge.
type shortest struct{ ipv4, ipv6 int }

// prefixes writes IPv4-mapped prefixes as IPv4, as the addresses they are held against
// are.
func prefixes(setting string, in []netip.Prefix, least shortest) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, p := range in {
		bits := least.ipv6
		if p.IsValid() && p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Addr().Is4() {
			bits = least.ipv4
		}
		switch {
		case !p.IsValid():
			return nil, fmt.Errorf("%w: %s: not a prefix: write one such as 10.1.2.0/24", work.ErrConfig, setting)
		case p.Bits() == 0:
			return nil, fmt.Errorf("%w: %s: %s is everything: name the addresses that are meant", work.ErrConfig, setting, p)
		case p.Bits() < bits:
			return nil, fmt.Errorf("%w: %s: %s is too wide: at least /%d, name the addresses that are meant", work.ErrConfig, setting, p, bits)
		case p != p.Masked():
			return nil, fmt.Errorf("%w: %s: %s has bits set behind its mask: write %s for the whole prefix, %s for the one address", work.ErrConfig, setting, p, p.Masked(), p.Addr())
		}
		out = append(out, p)
	}
	return out, nil
}

// judgeHost holds a host against the lists, whatever it stands for.
func (g *guard) judgeHost(host string) *refusal {
	if g.denyHosts.contains(host) {
		return blocked("host %s is refused by egress.deny_hosts", host)
	}
	if len(g.allowHosts) > 0 && !g.allowHosts.contains(host) {
		return blocked("host %s is not in egress.allow_hosts", host)
	}
	return nil
}

// judge says why an address may not be reached, or nil. It names the setting that would
// admit it. An IPv4 address inside an IPv6 one is judged as if it had been written
// itself: to allow the prefix of a translator opens neither the inside nor other ports
// behind it.
func (g *guard) judge(addr netip.Addr, port uint16) *refusal {
	addr = addr.WithZone("").Unmap()
	if r := g.denied(addr); r != nil {
		return r
	}
	allowed := contains(g.allow, addr)
	if !allowed && g.special.contains(addr) {
		return blocked("address %s is not public; only egress.allow_cidrs can admit it", addr)
	}
	for _, a := range embedded(addr) {
		if contains(g.allow, a) {
			continue
		}
		if g.special.contains(a) {
			return blocked("address %s leads to the inside address %s; only egress.allow_cidrs can admit that", addr, a)
		}
		allowed = false
	}
	if allowed {
		return nil
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
