package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/whctl/internal/config"
)

func TestEgress(t *testing.T) {
	c := file(`egress:
  require_https: false
  allow_hosts: [Hooks.Example.ORG., "*.internal", 127.0.0.2, "2001:DB8::1", _x.example]
  deny_hosts: [Ads.Example.ORG, "*.Tracker.example.", "*.zip", xn--bcher-kva.example]
  allow_cidrs: [127.0.0.0/29, 10.1.2.3, "fd00::1", "fc00::/7", 10.0.0.0/8]
  deny_cidrs: [127.0.0.3/32, 0.0.0.0/1]
  ports: [443, 8443]
  ca_file: /etc/ssl/private-ca.pem
  proxy: http://proxy.example.org:3128
`).load(t)
	prefixes := func(texts ...string) []netip.Prefix {
		var out []netip.Prefix
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	want := config.Egress{
		AllowHosts: []string{"hooks.example.org", "*.internal", "127.0.0.2", "2001:db8::1", "_x.example"},
		DenyHosts:  []string{"ads.example.org", "*.tracker.example", "*.zip", "xn--bcher-kva.example"},
		AllowCIDRs: prefixes("127.0.0.0/29", "10.1.2.3/32", "fd00::1/128", "fc00::/7", "10.0.0.0/8"),
		DenyCIDRs:  prefixes("127.0.0.3/32", "0.0.0.0/1"),
		Ports:      []int{443, 8443}, CAFile: "/etc/ssl/private-ca.pem", Proxy: "http://proxy.example.org:3128",
	}
	if diff := cmp.Diff(want, c.Egress, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestEgressRefuses(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"allow_cidrs", "0.0.0.0/0", "takes in every address (name the ones you mean)"},
		{"allow_cidrs", "::/0", "takes in every address"},
		{"deny_cidrs", "0.0.0.0/0", "takes in every address"},
		{"allow_cidrs", "0.0.0.0/1", "too wide to be allowed (IPv4 at least /8, IPv6 at least /7)"},
		{"allow_cidrs", "8000::/1", "too wide"},
		{"allow_cidrs", "10.1.2.3/24", "has bits set behind its mask (write 10.1.2.0/24 for the whole prefix, 10.1.2.3 for the one address)"},
		{"deny_cidrs", "fd00::1/64", "has bits set behind its mask"},
		{"allow_cidrs", "10.0.0.1:443", "has a port (ports stand in egress.ports)"},
		{"allow_cidrs", "[fd00::1]:443", "has a port"},
		{"allow_cidrs", "10.0.0.0/255.0.0.0", "neither an address nor a prefix"},
		{"allow_cidrs", "10.0.0.0/33", "neither"},
		{"allow_cidrs", "010.0.0.1", "neither"},
		{"allow_cidrs", "127.1", "neither"},
		{"allow_cidrs", "localhost", "neither an address nor a prefix"},
		{"allow_cidrs", "fe80::1%eth0", "neither"},
		{"allow_cidrs", "::ffff:10.0.0.1", "IPv4 address in IPv6 form (write it as IPv4)"},
		{"allow_cidrs", "::ffff:10.0.0.0/104", "IPv4 address in IPv6 form"},
		{"allow_cidrs", "", "neither"},
		{"allow_hosts", "*", "takes in every host (leave the list empty for that)"},
		{"allow_hosts", "*.", "takes in every host"},
		{"allow_hosts", "*.*", "takes in every host"},
		{"allow_hosts", "**", "takes in every host"},
		{"allow_hosts", ".", "is no host name"},
		{"allow_hosts", "", "is no host name"},
		{"allow_hosts", "a.*.example.org", "a star stands alone at the beginning"},
		{"allow_hosts", "a*.example.org", "a star stands alone"},
		{"allow_hosts", "*.*.example.org", "a star stands alone"},
		{"allow_hosts", "example.org:443", "ports stand in egress.ports"},
		{"allow_hosts", "https://example.org", "write the name alone"},
		{"allow_hosts", "https://u:hunter2@example.org/", "write the name alone"},
		{"allow_hosts", "u@hunter2", "is no host name"},
		{"allow_hosts", "10.0.0.0/8", "prefixes stand in egress.allow_cidrs"},
		{"allow_hosts", "0177.0.0.1", "is no host name"},
		{"allow_hosts", "2130706433", "is no host name"},
		{"allow_hosts", "0x7f.1", "is no host name"},
		{"allow_hosts", "127.0.0.0x1", "is no host name"},
		{"allow_hosts", "bücher.example", "is no host name (write an exact name or *.suffix; other letters than a to z in their xn-- form)"},
		{"allow_hosts", "１２７．０．０．１", "is no host name"},
		{"allow_hosts", "a..b", "is no host name"},
		{"allow_hosts", "-a.example", "is no host name"},
		{"allow_hosts", strings.Repeat("a", 64) + ".example", "is no host name"},
		{"allow_hosts", strings.Repeat("a.", 127) + "aa", "is no host name"},
		{"allow_hosts", "[2001:db8::1]", "an address without brackets"},
		{"allow_hosts", "::ffff:10.0.0.1", "IPv4 address in IPv6 form (write it as IPv4)"},
		{"allow_hosts", "*.10.1.2.3", "is no host name"},
		{"deny_hosts", "*", "takes in every host, so that nothing could be sent (name the ones you mean)"},
		{"deny_hosts", "*.*.", "takes in every host"},
		{"deny_hosts", "", "is no host name"},
		{"deny_hosts", "evil.example:8443", "ports stand in egress.ports"},
		{"deny_hosts", "https://u:hunter2@evil.example/", "write the name alone"},
		{"deny_hosts", "93.184.216.34", "is an address (write it in egress.deny_cidrs, where it is refused behind every name as well)"},
		{"deny_hosts", "2001:DB8::1", "is an address"},
		{"deny_hosts", "::ffff:10.0.0.1", "IPv4 address in IPv6 form"},
		{"deny_hosts", "93.184.216.0/24", "prefixes stand in egress.allow_cidrs and egress.deny_cidrs"},
		{"deny_hosts", "ev*l.example", "a star stands alone at the beginning"},
		{"deny_hosts", "bücher.example", "in their xn-- form"},
		{"ports", "65536", "is no whole number from 1 to 65535"},
		{"ports", "0", "is no whole number from 1 to 65535"},
		{"ports", "https", "is no whole number"},
	}
	for _, tt := range tests {
		t.Run(tt.key+" "+tt.value, func(t *testing.T) {
			_, err := config.Load(file("egress: {" + tt.key + ": ['" + tt.value + "']}").options())
			wantProblems(t, err, tt.want)
			if !strings.HasPrefix(err.Error(), "whctl.yaml:1: egress."+tt.key+": ") || strings.Contains(err.Error(), "hunter2") {
				t.Error(err)
			}
		})
	}
	for value, want := range map[string]string{
		"http//x": "is no URL", "http://u:hunter2@:80": "is no URL", "ftp://h/": "has a scheme that is not known", "http://h/hunter2": "has something behind the host",
		"http://h?x=hunter2": "has something behind the host", "http://u:hun%ter2@h": "is no URL", "environment": "is no URL",
	} {
		_, err := config.Load(file("egress: {proxy: '" + value + "'}").options())
		wantProblems(t, err, "egress.proxy: "+want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
	if c := file("egress: {proxy: ''}").load(t); c.Egress.Proxy != config.NoProxy {
		t.Errorf("%q", c.Egress.Proxy)
	}
	_, err := config.Load(file("egress: {require_https: maybe}").options())
	wantProblems(t, err, `egress.require_https: "maybe" is neither true nor false`)
}
