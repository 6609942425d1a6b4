package httpsend

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

func cidrs(all ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// trap must never be reached.
func trap(t *testing.T, address string) *receiver {
	t.Helper()
	return receiveAt(t, address, func(net.Conn, *receiver, int) {})
}

func port(t *testing.T, r *receiver) string {
	t.Helper()
	u, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// What the URL alone says about whether it may be sent to.
func TestURLs(t *testing.T) {
	public := Config{RequireHTTPS: true}
	plain := Config{}
	named := Config{RequireHTTPS: true, AllowHosts: []string{"Hooks.Example", "*.parcel.example", "bücher.example", "10.1.2.3"}, AllowCIDRs: cidrs("10.1.0.0/16")}
	inside := Config{RequireHTTPS: true, AllowCIDRs: cidrs("10.1.0.0/16", "::ffff:10.2.0.0/112", "64:ff9b::/96", "2002::/16", "fe80::/10", "127.0.0.0/29"), DenyCIDRs: cidrs("127.0.0.3/32", "93.184.216.0/24")}
	ported := Config{Ports: []int{8443}}
	const none = ""
	for _, c := range []struct {
		config Config
		url    string
		class  work.Class
		names  string // in the message
	}{
		{public, "https://hooks.example/a?b=c", none, ""},
		{public, "HTTPS://Hooks.Example.:443/", none, ""},
		{public, "https://hooks.example:/", none, ""},
		{public, "https://8.8.8.8/", none, ""},
		{public, "https://8.8.8.8./", none, ""},
		{public, "https://[2606:4700::1111]/", none, ""},
		{public, "https://a_b.example/", none, ""},
		{public, "https://bücher.example/", none, ""},
		{public, "https://１.１.１.１/", none, ""},
		{plain, "http://hooks.example/", none, ""},
		{plain, "http://hooks.example:80/", none, ""},

		{public, "http://hooks.example/", work.Blocked, "egress.require_https"},
		{public, "https://hooks.example:80/", work.Blocked, "egress.ports"},
		{public, "https://hooks.example:8443/", work.Blocked, "egress.ports"},
		{public, "https://8.8.8.8:22/", work.Blocked, "egress.ports"},
		{ported, "https://8.8.8.8:8443/", none, ""},
		{ported, "https://hooks.example/", work.Blocked, "egress.ports"},

		// H26, and the rest of what is inside.
		{public, "https://127.0.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://10.0.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://172.16.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://172.31.255.255/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://192.168.1.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://169.254.169.254/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://0.0.0.0/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://100.64.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://224.0.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://255.255.255.255/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[::1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[::]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[fe80::1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[fe80::1%25eth0]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[fc00::1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[fd00::1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[ff02::1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[::ffff:127.0.0.1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[::ffff:a9fe:a9fe]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[64:ff9b::7f00:1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[2002:7f00:1::]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[2001:0:1::1]/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://[::127.0.0.1]/", work.Blocked, "egress.allow_cidrs"},

		// H28: what they dial to, or no host at all.
		{public, "https://１２７．０．０．１/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://127。0。0。1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://①②⑦.0.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://127.0.0.1./", work.Blocked, "egress.allow_cidrs"},
		{public, "https://localhost/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://LOCALHOST./", work.Blocked, "egress.allow_cidrs"},
		{public, "https://ｌｏｃａｌｈｏｓｔ/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://x.localhost/", work.Blocked, "egress.allow_cidrs"},
		{public, "https://0177.0.0.1/", work.Invalid, "number"},
		{public, "https://0x7f.1/", work.Invalid, "number"},
		{public, "https://0x7f000001/", work.Invalid, "number"},
		{public, "https://2130706433/", work.Invalid, "number"},
		{public, "https://127.1/", work.Invalid, "number"},
		{public, "https://127.0.0.01/", work.Invalid, "number"},
		{public, "https://１２７.1/", work.Invalid, "number"},
		{public, "https://a..b/", work.Invalid, "host"},
		{public, "https://a b/", work.Invalid, "URL"},
		{public, "https://a*b/", work.Invalid, "host"},
		{public, "https://a\u200bb\u2260.example/", work.Invalid, "host"},
		{public, "https://" + strings.Repeat("a.", 130) + "b/", work.Invalid, "host"},

		{public, "https://1.1.1.1" + strings.Repeat("\u00ad", 10) + "/", none, ""},
		{public, "https://1.1.1.1" + strings.Repeat("\u00ad", 600) + "/", work.Invalid, "too long"},

		// H29: deny wins; an allowed name opens no address, an allowed address no other.
		{inside, "https://10.1.2.3:8080/", none, ""},
		{inside, "https://[::ffff:10.1.2.3]/", none, ""},
		{inside, "https://10.2.2.3/", none, ""},
		{inside, "https://10.3.0.1/", work.Blocked, "egress.allow_cidrs"},
		{inside, "https://127.0.0.2/", none, ""},
		{inside, "https://127.0.0.3/", work.Blocked, "egress.deny_cidrs"},
		{inside, "https://[::ffff:127.0.0.3]/", work.Blocked, "egress.deny_cidrs"},
		{inside, "https://93.184.216.34/", work.Blocked, "egress.deny_cidrs"},
		{inside, "https://[64:ff9b::7f00:3]/", work.Blocked, "egress.deny_cidrs"},
		{inside, "https://[64:ff9b::7f00:9]/", work.Blocked, "egress.allow_cidrs"},
		{inside, "https://[64:ff9b::7f00:2]/", none, ""},
		{inside, "https://[64:ff9b::808:808]/", none, ""},
		{inside, "https://[2002:a00:1::]/", work.Blocked, "egress.allow_cidrs"},
		{inside, "https://[fe80::1%25eth0]/", none, ""},
		{inside, "https://localhost/", none, ""},
		{inside, "https://hooks.example:8443/", none, ""}, // may be inside: judged when it is dialled
		{named, "https://hooks.example/", none, ""},
		{named, "https://HOOKS.example./", none, ""},
		{named, "https://x.hooks.example/", work.Blocked, "egress.allow_hosts"},
		{named, "https://a.b.parcel.example/", none, ""},
		{named, "https://parcel.example/", work.Blocked, "egress.allow_hosts"},
		{named, "https://evilparcel.example/", work.Blocked, "egress.allow_hosts"},
		{named, "https://xn--bcher-kva.example/", none, ""},
		{named, "https://10.1.2.3/", none, ""},
		{named, "https://10.1.2.4/", work.Blocked, "egress.allow_hosts"},

		{public, "", work.Invalid, "scheme"},
		{public, "hooks.example", work.Invalid, "scheme"},
		{public, "ftp://hooks.example/", work.Invalid, "scheme"},
		{public, "https:///path", work.Invalid, "host"},
		{public, "https:hooks.example", work.Invalid, "host"},
		{public, "https://user:Pw-7731@hooks.example/", work.Invalid, "user name"},
		{public, "https://Pw-7731@hooks.example/", work.Invalid, "user name"},
		{public, "https://hooks.example/#Pw-7731", work.Invalid, "fragment"},
		{public, "https://hooks.example:0/", work.Invalid, "port"},
		{public, "https://hooks.example:70000/", work.Invalid, "port"},
		{public, "https://hooks.example:x/Pw-7731", work.Invalid, "URL"},
		{public, "https://hooks.example/Pw-7731\n", work.Invalid, "URL"},
		{public, "https://[::1/Pw-7731", work.Invalid, "URL"},
	} {
		g, err := newGuard(c.config)
		if err != nil {
			t.Fatal(err)
		}
		_, r := g.target(c.url)
		if r == nil {
			r = &refusal{}
		}
		if r.class != c.class || !strings.Contains(r.text, c.names) {
			t.Errorf("%q: %q (%s), want %q naming %s", c.url, r.class, r.text, c.class, c.names)
		}
		if strings.Contains(r.text, "Pw-7731") {
			t.Errorf("%q: the message quotes it: %s", c.url, r.text)
		}
	}
}

// What was judged is what is dialled, and what the receiver is told.
func TestHostIsMapped(t *testing.T) {
	g, err := newGuard(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		"https://１.１.１.１/": "1.1.1.1", "https://1。1。1。1:443/": "1.1.1.1:443", "https://Bücher.Example./": "xn--bcher-kva.example",
		"https://[2606:4700:0::1111]/": "[2606:4700::1111]", "https://[2606:4700:0::1111]:443/": "[2606:4700::1111]:443",
		"https://[::FFFF:1.1.1.1]:0443/": "1.1.1.1:443", "https://1.1.1.1:/": "1.1.1.1",
	} {
		if to, r := g.target(raw); r != nil || to.url.Host != want {
			t.Errorf("%s: %+v, %+v, want %s", raw, to, r, want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	s := newSender(t, Config{RequireHTTPS: true})
	if err := s.CheckURL("https://hooks.example/"); err != nil {
		t.Error(err)
	}
	if err := s.CheckURL("https://127.0.0.1/"); !errors.Is(err, work.ErrConfig) {
		t.Errorf("%v", err)
	}
}
