package httpsend

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

// What cannot be meant is refused at the start, not skipped, and the message says what
// to write instead.
func TestSettingsThatCannotBe(t *testing.T) {
	allow := func(hosts ...string) Config { return Config{AllowHosts: append([]string{"hooks.example"}, hosts...)} }
	deny := func(hosts ...string) Config { return Config{DenyHosts: append([]string{"hooks.example"}, hosts...)} }
	allowed := func(prefixes ...string) Config { return Config{AllowCIDRs: cidrs(prefixes...)} }
	denied := func(prefixes ...string) Config { return Config{DenyCIDRs: cidrs(prefixes...)} }
	for _, c := range []struct {
		config Config
		want   string
	}{
		{allow("*"), `egress.allow_hosts: entry 2: "*" takes in every host: name those that are meant`},
		{allow("*."), "takes in every host"},
		{allow("*.*"), "takes in every host"},
		{deny("*"), `egress.deny_hosts: entry 2: "*" takes in every host`},
		{deny("*."), "takes in every host"},
		{allow(""), "there is none"},
		{deny("."), "there is none"},
		{allow("*.*.example.org"), "a star stands for the beginning of a name, as in *.example.org"},
		{allow("a*.example.org"), "a star stands"},
		{deny("a.*.example.org"), "a star stands"},
		{allow("*.10.1.2.3"), "a star stands"},
		{allow("*.::1"), "a star stands"},
		{allow("https://u:hunter2@hooks.example"), "write the name alone, as in hooks.example.org"},
		{deny("u:hunter2@hooks.example"), "write the name alone"},
		{allow("10.0.0.0/8"), "prefixes stand in egress.allow_cidrs and egress.deny_cidrs"},
		{allow("hooks.example:443"), "ports stand in egress.ports"},
		{deny("hooks.example:443"), "ports stand in egress.ports"},
		{allow("[2001:db8::1]"), "an address without brackets"},
		{allow("0177.0.0.1"), "a number, but no IPv4 address of four plain decimals"},
		{deny("2130706433"), "a number"},
		{deny("a b"), "no host name"},
		{deny("xn--8g7ccp.example"), "no host name"},
		{deny("93.184.216.34"), "93.184.216.34 is an address: write it in egress.deny_cidrs, where it is refused behind every name as well"},
		{deny("９３.184.216.34"), "93.184.216.34 is an address"},
		{deny("::1"), "::1 is an address"},

		{allowed("0.0.0.0/0"), "egress.allow_cidrs: 0.0.0.0/0 is everything: name the addresses that are meant"},
		{allowed("::/0"), "is everything"},
		{denied("::/0"), "egress.deny_cidrs: ::/0 is everything"},
		{allowed("0.0.0.0/1"), "egress.allow_cidrs: 0.0.0.0/1 is too wide: at least /8"},
		{allowed("8000::/1"), "8000::/1 is too wide: at least /7"},
		{allowed("::ffff:0:0/96"), "is everything"}, // all of IPv4
		{allowed("::ffff:0:0/97"), "0.0.0.0/1 is too wide"},
		{allowed("10.1.2.3/24"), "has bits set behind its mask: write 10.1.2.0/24 for the whole prefix, 10.1.2.3 for the one address"},
		{allowed("::ffff:10.1.2.3/120"), "write 10.1.2.0/24"},
		{allowed("::ffff:0:0/90"), "bits set behind its mask"},
		{denied("fd00::1/64"), "write fd00::/64"},
		{Config{DenyCIDRs: []netip.Prefix{{}}}, "egress.deny_cidrs: not a prefix: write one such as 10.1.2.0/24"},

		{Config{Ports: []int{443, 0}}, "egress.ports: 0 is no port: write numbers from 1 to 65535"},
		{Config{Ports: []int{65536}}, "egress.ports: 65536"},
		{Config{Proxy: "proxy.example:3128"}, "egress.proxy: want none or a URL"},
		{Config{Proxy: "http://user:hunter2@ bad"}, "egress.proxy"},
	} {
		_, err := New(c.config)
		if !errors.Is(err, work.ErrConfig) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, c := range []Config{
		allow("*.internal", "*.com", "10.1.2.3", "2001:db8::1", "bücher.example"), deny("*.zip"),
		allowed("10.0.0.0/8", "fc00::/7", "64:ff9b::/96", "::ffff:10.0.0.0/104"), denied("0.0.0.0/1", "8000::/1"),
	} {
		if _, err := New(c); err != nil {
			t.Error(err)
		}
	}
}

// Lists of hosts are held against the host as it will be resolved, and deny wins.
func TestHostLists(t *testing.T) {
	both := Config{
		AllowHosts: []string{"*.parcel.example", "hooks.example", "10.1.2.3"},
		DenyHosts:  []string{"Evil.Parcel.Example.", "*.dark.parcel.example", "ｂöse.parcel.example"},
	}
	denyOnly := Config{DenyHosts: []string{"hooks.example", "localhost", "*.straße.example"}, AllowCIDRs: cidrs("127.0.0.0/8", "::1/128")}
	for _, c := range []struct {
		config Config
		host   string
		names  string // in the message; "" for admitted
	}{
		{both, "a.parcel.example", ""},
		{both, "hooks.example", ""},
		{both, "dark.parcel.example", ""}, // a suffix is what is below it
		{both, "evil.parcel.example", "egress.deny_hosts"},
		{both, "EVIL.parcel.example.", "egress.deny_hosts"},
		{both, "ｅｖｉｌ。parcel.example", "egress.deny_hosts"},
		{both, "evil\u00ad.parcel.example", "egress.deny_hosts"},
		{both, "a.dark.parcel.example", "egress.deny_hosts"},
		{both, "a.b.dark.parcel.example", "egress.deny_hosts"},
		{both, "böse.parcel.example", "egress.deny_hosts"},
		{both, "xn--bse-sna.parcel.example", "egress.deny_hosts"},
		{both, "XN--BSE-SNA.parcel.example", "egress.deny_hosts"},
		{both, "evil.example", "egress.allow_hosts"},
		{both, "parcel.example", "egress.allow_hosts"},
		{both, "10.1.2.3", "egress.allow_cidrs"},                // the list of hosts opens no address
		{both, "[::ffff:10.1.2.3]", "egress.allow_cidrs"},       // the same one
		{both, "hooks.example.evil.test", "egress.allow_hosts"}, // no suffix
		{both, "a.parcel.example.evil.test", "egress.allow_hosts"},
		{denyOnly, "hooks.example", "egress.deny_hosts"},
		{denyOnly, "x.hooks.example", ""},
		{denyOnly, "localhost", "egress.deny_hosts"}, // also where its addresses are admitted
		{denyOnly, "LOCALHOST.", "egress.deny_hosts"},
		{denyOnly, "x.localhost", ""},
		{denyOnly, "a.straße.example", "egress.deny_hosts"},
		{denyOnly, "a.xn--strae-oqa.example", "egress.deny_hosts"},
		{denyOnly, "a.strasse.example", ""},
	} {
		g, err := newGuard(c.config)
		if err != nil {
			t.Fatal(err)
		}
		_, r := g.target("https://" + c.host + "/")
		if r == nil {
			r = &refusal{}
		}
		if (c.names == "") != (r.text == "") || !strings.Contains(r.text, c.names) {
			t.Errorf("%s: %q (%s), want %q", c.host, r.class, r.text, c.names)
		}
		if r.text != "" && r.class != work.Blocked {
			t.Errorf("%s: class %q", c.host, r.class)
		}
	}
}

// What an allowed prefix opens is the way: an IPv4 address behind it is judged as if it
// had been written itself, with its own ports.
func TestAnAllowedTranslatorOpensNothingInside(t *testing.T) {
	g, err := newGuard(Config{
		RequireHTTPS: true,
		AllowCIDRs:   cidrs("::/8", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fd00::/8", "10.1.2.0/24"),
		DenyCIDRs:    cidrs("93.184.216.0/24", "10.1.2.9/32"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for host, names := range map[string]string{
		"[64:ff9b::808:808]": "", "[64:ff9b::808:808]:22": "egress.ports", "[64:ff9b::808:808]:80": "egress.ports",
		"[64:ff9b::a01:203]:22": "", "[64:ff9b::7f00:1]": "inside address 127.0.0.1", "[64:ff9b::a9fe:a9fe]": "inside address 169.254.169.254",
		"[64:ff9b::a83f:8110]": "inside address 168.63.129.16", "[64:ff9b::5db8:d822]": "egress.deny_cidrs", "[64:ff9b::a01:209]": "egress.deny_cidrs",
		"[2002:808:808::1]": "", "[2002:7f00:1::]": "inside address 127.0.0.1", "[2002:a01:203::1]:22": "",
		"[2001:0:808:808::f7f7:f7f7]": "", // server 8.8.8.8, client 8.8.8.8
		"[2001:0:7f00:1::f7f7:f7f7]":  "inside address 127.0.0.1", "[2001:0:808:808::80ff:fffe]": "inside address 127.0.0.1",
		"[::8.8.8.8]": "", "[::127.0.0.1]": "inside address 127.0.0.1", "[::ffff:0:7f00:1]": "inside address 127.0.0.1", "[::ffff:0:808:808]": "",
		"[::1]:8443": "", "[::]": "", "[::2]": "inside address 0.0.0.2", "[fd00::1]:8443": "",
		"[fd00::5efe:a00:1]": "inside address 10.0.0.1", "[fd00::200:5efe:a00:1]": "inside address 10.0.0.1", "[fd00::5efe:a01:203]:22": "",
		"[2606:4700::5efe:a01:203]:22": "egress.ports", "[2606:4700::5efe:a00:1]": "inside address 10.0.0.1", "[2606:4700::5efe:808:808]": "",
		"[2002:808:808::5efe:7f00:1]": "inside address 127.0.0.1",

		// Every length a translator's prefix may have (RFC 6052): only the operator knows which.
		"[64:ff9b:1::808:808]": "", "[64:ff9b:1:abcd::808:808]": "", "[64:ff9b:1::7f00:1]": "inside address 127.0.0.1",
		"[64:ff9b:1:0:a:0:808:808]":     "inside address 10.0.0.8", // 64 bits
		"[64:ff9b:1:a:0:100:808:808]":   "inside address 10.0.1.0", // 56 bits
		"[64:ff9b:1:a00:0:100:808:808]": "inside address 10.0.0.1", // 48 bits
	} {
		_, r := g.target("https://" + host + "/")
		if r == nil {
			r = &refusal{}
		}
		if (names == "") != (r.text == "") || !strings.Contains(r.text, names) {
			t.Errorf("%s: %q, want %q", host, r.text, names)
		}
	}
}
