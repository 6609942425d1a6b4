package httpsend

import (
	"net/netip"

	"code.dny.dev/ssrf"
)

// special knows which addresses are not for receivers. The tables are those of the ssrf
// package, made from IANA's IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890,
// RFC 8190) and the IPv4 Multicast Address Space Registry: every block of them is
// refused, and of IPv6 whatever is not global unicast, 2000::/3 (RFC 4291): so are the
// old site-local fec0::/10 (RFC 3879), multicast ff00::/8 and 5f00::/16 (RFC 9602).
//
// The registries' column "Globally Reachable" does not decide. Where it says False or
// N/A the block is inside, or nowhere. Where it says True it stands for services of the
// network itself (AS112, RFC 7534 and 7535; AMT, RFC 7450; the anycast addresses of PCP,
// RFC 7723, and TURN, RFC 8155), of which the nearest answers, which may well be one
// inside; for identifiers that are no places (ORCHIDv2, RFC 7343; drones, RFC 9374); or for
// the door to a translator (64:ff9b::/96, RFC 6052). No receiver lives there.
// Egress.allow_cidrs opens what somebody needs after all.
//
// What the tables leave open is added here: publicInside and embedded. What nobody can
// know is for egress.deny_cidrs: a translator with a prefix of its own (RFC 6052,
// section 2.2), 6rd (RFC 5969), public addresses that are routed inside only.
type special struct {
	tables *ssrf.Guardian
	more   []netip.Prefix
}

func newSpecial() special {
	return special{tables: ssrf.New(), more: publicInside()}
}

// contains is for addresses that are neither IPv4-mapped nor have a zone.
func (s special) contains(a netip.Addr) bool {
	return s.tables.SafeAddr(a) != nil || contains(s.more, a)
}

// publicInside lists what is inside although its block is public. The metadata services
// of other clouds stand at special addresses: 169.254.169.254, 169.254.170.2 and .23,
// 100.100.100.200, 192.0.0.192, fd00:ec2::254 and ::23, fd20:ce::254, fe80::a9fe:a9fe.
func publicInside() []netip.Prefix {
	return []netip.Prefix{
		// Azure's platform (WireServer): answers any virtual machine there with its
		// settings and certificates, and is its name server.
		netip.MustParsePrefix("168.63.129.16/32"),
	}
}

// carrier is a kind of IPv6 addresses that have IPv4 addresses in them, to which a
// translator, relay or tunnel would take the packets.
type carrier struct {
	prefix string
	read   func(b [16]byte) []netip.Addr
}

// carriers lists them. IPv4-mapped addresses are missing: they are written as IPv4
// before anything is judged.
func carriers() []carrier {
	last := func(b [16]byte) []netip.Addr { return four(b[12:]) }
	return []carrier{
		{"::/96", last},           // IPv4-compatible, RFC 4291 section 2.5.5.1
		{"::ffff:0:0:0/96", last}, // IPv4-translated, RFC 2765 section 2.1
		{"64:ff9b::/96", last},    // NAT64, RFC 6052 section 2.1
		{"64:ff9b:1::/48", local}, // NAT64 inside one network, RFC 8215
		{"2001::/32", teredo},     // RFC 4380 section 4
		{"2002::/16", func(b [16]byte) []netip.Addr { return four(b[2:]) }}, // 6to4, RFC 3056 section 2
		{"::/0", isatap}, // RFC 5214 section 6.1: below any prefix
	}
}

// embedded lists the IPv4 addresses in an IPv6 address.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() || addr.IsUnspecified() || addr.IsLoopback() { // these look IPv4-compatible
		return nil
	}
	var all []netip.Addr
	for _, c := range carriers() {
		if netip.MustParsePrefix(c.prefix).Contains(addr) {
			all = append(all, c.read(addr.As16())...)
		}
	}
	return all
}

func four(b []byte) []netip.Addr { return []netip.Addr{netip.AddrFrom4([4]byte(b[:4]))} }

// teredo reads the server and the client; the latter's bits are turned over.
func teredo(b [16]byte) []netip.Addr {
	return append(four(b[4:]), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
}

func isatap(b [16]byte) []netip.Addr {
	if b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return four(b[12:])
	}
	return nil
}

// local reads what a translator would whose prefix has 96, 64, 56 or 48 bits (RFC 6052
// section 2.2; it leaves byte 8 out). Which it is only its operator knows, so that all
// are judged. Readings in 0.0.0.0/8 come from the zeros of a longer prefix: no
// translator sends anything there (RFC 1122 section 3.2.1.3).
func local(b [16]byte) []netip.Addr {
	all := four(b[12:])
	for _, a := range [][4]byte{{b[9], b[10], b[11], b[12]}, {b[7], b[9], b[10], b[11]}, {b[6], b[7], b[9], b[10]}} {
		if a[0] != 0 {
			all = append(all, netip.AddrFrom4(a))
		}
	}
	return all
}
