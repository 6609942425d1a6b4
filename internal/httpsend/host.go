package httpsend

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

const (
	maxHost  = 253 // bytes of a name in ASCII (RFC 1035 section 2.3.4, without the last dot)
	maxLabel = 63
	maxRaw   = 4 * maxHost // bytes of a host as written: mapping a long one takes its time
	maxZone  = 15          // bytes: what an interface can be called on Linux
)

const alphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789"

// mapHost writes a host as it will be resolved, by the rules of UTS #46 as browsers do:
// full-width and circled digits, ideographic full stops and capitals become what they
// stand for, soft hyphens and zero-width spaces go, a name in other letters becomes its
// ASCII form, an IPv4-mapped address is IPv4. A name in digits that some resolvers read
// as an address (0177.0.0.1, 0x7f.1, 2130706433, 127.1) is no host. What comes out maps
// to itself. why is "" for a host that can be used.
func mapHost(raw string) (host, why string) {
	if len(raw) > maxRaw {
		return "", "it is too long"
	}
	if strings.Contains(raw, ":") {
		return mapIPv6(raw)
	}
	host = strings.ToLower(raw)
	if !isASCII(raw) {
		var err error
		if host, err = idna.Lookup.ToASCII(raw); err != nil {
			return "", "it is no host name"
		}
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" {
		return "", "there is none"
	}
	if len(host) > maxHost {
		return "", "it is too long"
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if !isLabel(label) {
			return "", "it is no host name"
		}
		last = label
	}
	if isNumber(last) {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return "", "it is a number, but no IPv4 address of four plain decimals"
		}
		return addr.String(), ""
	}
	return host, ""
}

// mapIPv6 leaves a zone to link-local addresses only, which need one (RFC 4007).
func mapIPv6(raw string) (host, why string) {
	addr, err := netip.ParseAddr(raw)
	if err != nil {
		return "", "it is no address"
	}
	if zone := addr.Zone(); zone != "" {
		plain := strings.Trim(strings.ToLower(zone), alphanumeric+"-_.") == ""
		if !plain || len(zone) > maxZone || !addr.IsLinkLocalUnicast() {
			return "", "its zone cannot be used"
		}
	}
	return addr.Unmap().String(), ""
}

// isLabel is for lower-case ASCII. The coded form of letters that have another one, as
// those of full-width digits, is none: some software decodes it.
func isLabel(label string) bool {
	if label == "" || len(label) > maxLabel || strings.Trim(label, alphanumeric+"-_") != "" {
		return false
	}
	if !strings.HasPrefix(label, "xn--") {
		return true
	}
	again, err := idna.Lookup.ToASCII(label)
	return err == nil && again == label
}

// isNumber is the test of the WHATWG URL standard for a host that ends in a number.
func isNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
