package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

func (l *loader) egress(m *layer) Egress {
	at := func(key string) string { return join("egress", key) }
	return Egress{
		RequireHTTPS: read(l, m, at("require_https"), parseBool),
		AllowHosts:   readList(l, m, at("allow_hosts"), hostPattern),
		DenyHosts:    readList(l, m, at("deny_hosts"), deniedHost),
		AllowCIDRs:   readList(l, m, at("allow_cidrs"), allowedPrefix),
		DenyCIDRs:    readList(l, m, at("deny_cidrs"), parsePrefix),
		Ports:        readList(l, m, at("ports"), number(1, 65535)),
		CAFile:       read(l, m, at("ca_file"), verbatim),
		Proxy:        read(l, m, at("proxy"), proxy),
	}
}

// parsePrefix reads an address or an exact prefix of addresses.
func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return checkPrefix(s, netip.PrefixFrom(addr, addr.BitLen()))
	}
	p, err := netip.ParsePrefix(s)
	if err == nil {
		return checkPrefix(s, p)
	}
	if _, err := netip.ParseAddrPort(s); err == nil {
		return netip.Prefix{}, fmt.Errorf("%q has a port (ports stand in egress.ports)", s)
	}
	return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix (write one such as 10.1.2.3, 10.1.2.0/24 or fd00:1::/64; names stand in egress.allow_hosts)", s)
}

func checkPrefix(s string, p netip.Prefix) (netip.Prefix, error) {
	switch {
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 address in IPv6 form (write it as IPv4)", s)
	case p.Bits() == 0:
		return netip.Prefix{}, fmt.Errorf("%q takes in every address (name the ones you mean)", s)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits set behind its mask (write %s for the whole prefix, %s for the one address)", s, p.Masked(), p.Addr())
	}
	return p, nil
}

// Prefixes as short as the private ranges themselves; whatever is shorter takes in
// half the world.
const (
	shortest4 = 8 // 10.0.0.0/8
	shortest6 = 7 // fc00::/7
)

// allowedPrefix opens what is closed for a reason, so that it may not be wide.
func allowedPrefix(s string) (netip.Prefix, error) {
	p, err := parsePrefix(s)
	if err != nil {
		return p, err
	}
	if p.Addr().Is4() && p.Bits() < shortest4 || p.Addr().Is6() && p.Bits() < shortest6 {
		return netip.Prefix{}, fmt.Errorf("%q is too wide to be allowed (IPv4 at least /%d, IPv6 at least /%d)", s, shortest4, shortest6)
	}
	return p, nil
}

// Lengths are checked beside the expressions: counted repeats are slow to compile, and
// every start of the program pays for that.
var (
	hostLabel = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)
	// A last label that is a number makes the whole an address to some resolvers.
	numberish = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)
)

func isHostName(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if len(label) > 63 || !hostLabel.MatchString(label) {
			return false
		}
	}
	return len(s) <= 253 && !numberish.MatchString(labels[len(labels)-1])
}

// hostPattern reads an exact host name or *.suffix, or an address as it is written in
// a URL.
func hostPattern(s string) (string, error) {
	host := strings.TrimSuffix(strings.ToLower(s), ".")
	addr, err := netip.ParseAddr(host)
	name, wild := strings.CutPrefix(host, "*.")
	switch {
	case err == nil && addr.Is4In6():
		return "", fmt.Errorf("%q is an IPv4 address in IPv6 form (write it as IPv4)", s)
	case err == nil && addr.Zone() == "":
		return addr.String(), nil
	case isEveryHost(s):
		return "", fmt.Errorf("%q takes in every host (leave the list empty for that)", s)
	case strings.Contains(s, "/"):
		return "", fmt.Errorf("%q is no host name (write the name alone; prefixes stand in egress.allow_cidrs and egress.deny_cidrs)", s)
	case strings.Contains(s, ":"):
		return "", fmt.Errorf("%q is no host name (write the name alone, and an address without brackets; ports stand in egress.ports)", s)
	case strings.Contains(name, "*"):
		return "", fmt.Errorf("%q: a star stands alone at the beginning, as in *.example.org", s)
	case !isHostName(name):
		return "", fmt.Errorf("%q is no host name (write an exact name or *.suffix; other letters than a to z in their xn-- form)", s)
	case wild:
		return "*." + name, nil
	}
	return name, nil
}

// isEveryHost is for stars and dots alone. A suffix of one label, as *.internal, is not
// meant: it may be a private one.
func isEveryHost(s string) bool {
	return strings.Contains(s, "*") && strings.Trim(s, "*.") == ""
}

// deniedHost takes no addresses: a name could stand for the same one, and only the
// address is known when it is dialled.
func deniedHost(s string) (string, error) {
	if isEveryHost(s) {
		return "", fmt.Errorf("%q takes in every host, so that nothing could be sent (name the ones you mean)", s)
	}
	host, err := hostPattern(s)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return "", fmt.Errorf("%q is an address (write it in egress.deny_cidrs, where it is refused behind every name as well)", s)
	}
	return host, nil
}

// proxy does not quote what it refuses: it may hold a password.
func proxy(s string) (string, error) {
	if s == "" || s == NoProxy {
		return NoProxy, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("is no URL (write none, or one such as http://proxy.example.org:3128)")
	}
	switch u.Scheme {
	case "http", "https", "socks5":
	default:
		return "", errors.New("has a scheme that is not known (want http, https or socks5)")
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("has something behind the host (write scheme, host and port alone)")
	}
	return s, nil
}
