package httpsend

import (
	"bytes"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/whctl/internal/work"
)

// FuzzURL holds the judge of URLs to what it promises for any text at all.
func FuzzURL(f *testing.F) {
	for _, row := range verdictRows(f) {
		f.Add(row.url)
	}
	var guards []*guard
	for _, c := range []Config{
		{RequireHTTPS: true},
		{AllowCIDRs: cidrs("10.0.0.0/8", "127.0.0.0/29", "fe80::/10", "fd00::/8", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "::/8"), DenyCIDRs: cidrs("127.0.0.3/32")},
		{AllowHosts: []string{"*.example", "10.1.2.3", "localhost"}, DenyHosts: []string{"*.evil.example"}, Ports: []int{443, 8443}},
	} {
		g, err := newGuard(c)
		if err != nil {
			f.Fatal(err)
		}
		guards = append(guards, g)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, g := range guards {
			switch to, r := g.target(raw); {
			case (to == nil) == (r == nil):
				t.Fatalf("%q: %+v and %+v", raw, to, r)
			case r != nil:
				checkRefusal(t, g, raw, r)
			default:
				checkTarget(t, g, raw, to)
			}
		}
	})
}

// checkRefusal: the text is fit for every column and log, and is the same whatever stands
// where secrets do.
func checkRefusal(t *testing.T, g *guard, raw string, r *refusal) {
	t.Helper()
	if r.class != work.Blocked && r.class != work.Invalid {
		t.Errorf("%q: class %q", raw, r.class)
	}
	if r.text == "" || !utf8.ValidString(r.text) || r.outcome().Message != r.text {
		t.Errorf("%q: the text is not clean: %q", raw, r.text)
	}
	u, err := url.Parse(raw)
	if err != nil {
		if r.text != "the URL cannot be read" {
			t.Errorf("%q: %q", raw, r.text)
		}
		return
	}
	other := *u
	other.Path, other.RawPath = "/other", ""
	if u.User != nil {
		other.User = url.UserPassword("other", "other")
	}
	if u.RawQuery != "" {
		other.RawQuery = "other"
	}
	if strings.Contains(u.RawQuery, " ") {
		other.RawQuery = "an other"
	}
	other.Fragment, other.RawFragment = "", ""
	if strings.Contains(raw, "#") {
		other.Fragment = "other"
	}
	if again, err := url.Parse(other.String()); err != nil || again.Host != u.Host || again.Scheme != u.Scheme {
		return // a host that cannot be written again
	}
	if _, s := g.target(other.String()); s == nil || s.text != r.text {
		t.Errorf("%q is refused because %q, %q because %+v", raw, r.text, other.String(), s)
	}
}

// checkTarget: what is dialled is what was judged.
func checkTarget(t *testing.T, g *guard, raw string, to *target) {
	t.Helper()
	u := to.url
	host := u.Hostname()
	if host != to.host || !isASCII(u.Host) || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		t.Errorf("%q: %+v (%s)", raw, u, to.host)
	}
	if again, why := mapHost(host); again != host || why != "" {
		t.Errorf("%q: %s maps to %q (%s)", raw, host, again, why)
	}
	if again, r := g.target(u.String()); r != nil || again.url.Host != u.Host {
		t.Errorf("%q became %q, which is %+v (%+v)", raw, u, again, r)
	}
	port := map[string]int{"https": 443, "http": 80}[u.Scheme]
	if p := u.Port(); p != "" {
		port, _ = strconv.Atoi(p)
	}
	if port < 1 || port > 65535 || u.Scheme == "http" && g.requireHTTPS || g.judgeHost(host) != nil {
		t.Errorf("%q: %s on port %d should not be", raw, u.Host, port)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if r := g.judge(addr, uint16(port)); r != nil {
			t.Errorf("%q: %+v", raw, r)
		}
	} else if isNumber(host[strings.LastIndex(host, ".")+1:]) {
		t.Errorf("%q: %s is an address to some", raw, host)
	}
	// One request, for this host.
	line, _, _ := strings.Cut(to.opening, "\r\n")
	if len(strings.Split(line, " ")) != 3 || strings.Count(to.opening, "\r\n") != 2 || strings.Count(to.opening, "\n") != 2 {
		t.Errorf("%q is sent as %q", raw, to.opening)
	}
	// net/http would say the same.
	var wire bytes.Buffer
	if err := (&http.Request{Method: http.MethodPost, URL: u}).Write(&wire); err != nil || !strings.HasPrefix(wire.String(), to.opening) {
		t.Errorf("%q is sent as %q, by net/http as %q (%v)", raw, to.opening, wire.String(), err)
	}
}
