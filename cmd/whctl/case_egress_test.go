package main

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// egress configures the bench with its own egress settings in the place of the usual
// ones.
func (b *theBench) egress(settingsOf string) {
	b.t.Helper()
	usual := "egress: {allow_cidrs: [127.0.0.1/32], ca_file: %CA%}"
	if !strings.Contains(settings, usual) {
		b.t.Fatal("the usual settings have changed")
	}
	b.configure(strings.Replace(settings, usual, "egress: {"+settingsOf+", ca_file: %CA%}", 1))
}

// receiverOn is R at an address of its choice.
func (b *theBench) receiverOn(name, host string) *testbed.Endpoint {
	b.t.Helper()
	r := testbed.Receiver(b.t, testbed.ReceiverOptions{Host: host})
	b.destination(name, r)
	return r
}

// rows puts one delivery to each URL in, as somebody did who went past `destination
// apply`; the ids are by URL.
func (b *theBench) rows(urls ...string) map[string]string {
	b.t.Helper()
	ids := map[string]string{}
	for i, url := range urls {
		name := fmt.Sprintf("row-%d", i)
		b.db.Destination(b.t, name, url)
		ids[url] = b.due(name, 1)[0]
	}
	return ids
}

// refused fails unless the delivery is dead after one attempt of a class, with one of the
// texts in its message.
func (b *theBench) refused(url, id, classes string, names ...string) {
	b.t.Helper()
	got := b.status(id, "state || ' ' || class || ' ' || attempts")
	message := testbed.QueryString(b.t, b.db, `SELECT message FROM whctl.attempt_history WHERE delivery_id = $1`, id)
	named := false
	for _, name := range names {
		named = named || strings.Contains(message, name)
	}
	state, class, _ := strings.Cut(strings.TrimSuffix(got, " 1"), " ")
	if state != "dead" || !strings.Contains(classes, class) || !strings.HasSuffix(got, " 1") || !named {
		b.t.Errorf("%s: %s (%s), want dead after one attempt of class %s, naming %q", url, got, message, classes, names)
	}
}

// trapped sets a trap on 127.0.0.1, whose port is admitted for public addresses, beside a
// receiver on 127.0.0.2, which is admitted.
func (b *theBench) trapped() (port string, r *testbed.Endpoint) {
	b.t.Helper()
	_, port, _ = strings.Cut(testbed.Trap(b.t, "127.0.0.1").Address, ":")
	b.egress("allow_cidrs: [127.0.0.2/32], ports: [443, " + port + "]")
	return port, b.receiverOn("r", "127.0.0.2")
}

// H26: an address written out that is inside is dead at once, and says what would admit
// it. That no connection is made is counted in httpsend (TestNothingLeavesForTheRefused);
// here the trap stands behind all that lead to 127.0.0.1.
func TestH26AddressesWrittenOut(t *testing.T) {
	b := newBench(t)
	defer b.check()
	p, r := b.trapped()
	good := b.due("r", 3)
	var urls []string
	for _, host := range []string{
		"127.0.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
		"[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]",
		"168.63.129.16", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2606:4700::5efe:7f00:1]",
	} {
		urls = append(urls, "https://"+host+"/hook", "https://"+host+":"+p+"/hook")
	}
	ids := b.rows(urls...)
	if s := b.once(); s.Delivered != 3 || s.Dead != len(urls) || s.ByClass["blocked"] != len(urls) {
		t.Errorf("summary %+v", s)
	}
	b.eachOnce(good, r)
	for url, id := range ids {
		b.refused(url, id, "blocked", "egress.allow_cidrs")
	}
	letters := b.must(0, "dlq", "list", "-o", "jsonl", "--jq", ".reason").Stdout
	if strings.Count(letters, "blocked") != len(urls) {
		t.Errorf("reasons: %s", letters)
	}
	// None of them could have been put in by the documented way.
	for _, url := range []string{urls[0], urls[10], "https://user:Pw-7731@hooks.example/"} {
		file := testbed.Config(t, fmt.Sprintf("destinations: [{name: x, url: %q}]", url))
		res := b.must(78, "destination", "apply", "--file", file)
		if strings.Contains(res.Stderr, "Pw-7731") || !strings.Contains(res.Stderr, "egress.allow_cidrs") && !strings.Contains(res.Stderr, "user name or password") {
			t.Errorf("%s", res.Stderr)
		}
	}
}

// H28: a host is judged as what it is dialled as.
func TestH28HostsSpelledStrangely(t *testing.T) {
	b := newBench(t)
	defer b.check()
	p, r := b.trapped()
	good := b.due("r", 1)
	var urls []string
	for _, host := range []string{
		"１２７．０．０．１", "127。0。0。1", "①②⑦.0.0.1", "0177.0.0.1", "0x7f.1", "2130706433", "127.1", "localhost", "localhost.",
		"127.0.0.1.", "127.0.0.1..", "LOCALHOST", "x.localhost", "ｌｏｃａｌｈｏｓｔ", "127.0.0.1\u00ad", "loc\u200balhost", "xn--8g7ccp.0.0.1",
		"[::ffff:7f00:1]", "[0:0:0:0:0:FFFF:127.0.0.1]", "[::127.0.0.1]", "[fe80::1%25lo]", "%31%32%37.0.0.1", "8.8.8.8@127.0.0.1", "127.0.0.1\t",
	} {
		urls = append(urls, "https://"+host+":"+p+"/")
	}
	urls = append(urls, `https:\\127.0.0.1:`+p+`/`, "https://127.0.0.1:"+p+"#@8.8.8.8/", "https://127.0.0.1:0"+p+"/", "https://127.0.0.1:+"+p+"/")
	ids := b.rows(urls...)
	if s := b.once(); s.Delivered != 1 || s.Dead != len(urls) {
		t.Errorf("summary %+v", s)
	}
	b.eachOnce(good, r)
	for url, id := range ids {
		b.refused(url, id, "blocked invalid", "egress.allow_cidrs", "the URL")
	}
}

// H29: deny wins over allow, and the list of hosts opens no address.
func TestH29AllowlistAgainstDenylist(t *testing.T) {
	for name, c := range map[string]struct{ egress, host, names string }{
		"deny wins":               {"allow_cidrs: [127.0.0.0/29], deny_cidrs: [127.0.0.3/32]", "127.0.0.3", "egress.deny_cidrs"},
		"not allowed":             {"allow_cidrs: [127.0.0.2/32]", "127.0.0.3", "egress.allow_cidrs"},
		"host allowed alone":      {`allow_cidrs: [127.0.0.2/32], allow_hosts: [127.0.0.3, 127.0.0.2, localhost]`, "127.0.0.3", "egress.allow_cidrs"},
		"localhost allowed alone": {`allow_cidrs: [127.0.0.2/32], allow_hosts: [127.0.0.2, localhost]`, "localhost", "egress.allow_cidrs"},
		"host not allowed":        {`allow_cidrs: [127.0.0.0/29], allow_hosts: [127.0.0.2]`, "127.0.0.3", "egress.allow_hosts"},
		"host denied":             {`allow_cidrs: [127.0.0.0/29], allow_hosts: [127.0.0.2, localhost], deny_hosts: [LocalHost.]`, "localhost", "egress.deny_hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			defer b.check()
			b.egress(c.egress)
			r := b.receiverOn("r", "127.0.0.2")
			good := b.due("r", 2)
			at := c.host
			if at == "localhost" {
				at = "127.0.0.1"
			}
			_, p, _ := strings.Cut(testbed.Trap(t, at).Address, ":")
			url := "https://" + c.host + ":" + p + "/hook"
			id := b.rows(url)[url]
			if s := b.once(); s.Delivered != 2 || s.Dead != 1 {
				t.Errorf("summary %+v", s)
			}
			b.eachOnce(good, r)
			b.refused(url, id, "blocked", c.names)
		})
	}
}

// What takes in everything, and what is no host or prefix, is refused at the start: the
// rows keep their tries.
func TestEgressSettingsThatCannotBeMeant(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.receiverOn("r", "127.0.0.2")
	id := b.due("r", 1)[0]
	for setting, says := range map[string]string{
		`allow_cidrs: [0.0.0.0/0]`: "takes in every address", `allow_cidrs: ["::ffff:0:0/96"]`: "write it as IPv4", `allow_cidrs: [127.0.0.2/8]`: "127.0.0.0/8",
		`allow_cidrs: ["127.0.0.2:443"]`: "egress.ports", `deny_cidrs: ["::/0"]`: "takes in every address", `allow_hosts: ["*"]`: "takes in every host",
		`deny_hosts: ["*."]`: "takes in every host", `deny_hosts: ["evil.example:443"]`: "egress.ports", `deny_hosts: [10.0.0.1]`: "egress.deny_cidrs",
	} {
		b.egress(setting)
		for _, args := range [][]string{{"deliver", "--once"}, {"config", "validate"}} {
			if res := b.must(78, args...); !strings.Contains(strings.ReplaceAll(res.Stderr+res.Stdout, `\"`, `"`), says) {
				t.Errorf("%s: %s%s does not say %q", setting, res.Stderr, res.Stdout, says)
			}
		}
	}
	if b.status(id, "attempts") != "0" {
		t.Errorf("%s attempts", b.status(id, "attempts"))
	}
	b.egress(`deny_hosts: [evil.example, "*.dark.example"]`)
	if res := b.must(0, "config", "show"); !strings.Contains(res.Stdout, "[evil.example, *.dark.example]") {
		t.Error(res.Stdout)
	}
}

// H30: no proxy comes from the environment.
func TestH30ProxyVariables(t *testing.T) {
	b := newBench(t)
	defer b.check()
	// Go never uses a proxy for the loopback, so that R stands elsewhere if it can.
	host := ownAddress(t)
	b.egress("allow_cidrs: [" + host + "/32]")
	certificate := testbed.Certificate(t, testbed.CertificateOptions{Hosts: []string{host}})
	r := testbed.Receiver(t, testbed.ReceiverOptions{Host: host, Certificate: &certificate})
	b.destination("r", r)
	good := b.due("r", 1)
	proxy := testbed.Trap(t, "127.0.0.1")
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		b.env = append(b.env, name+"=http://user:Pw-7731@"+proxy.Address)
	}
	const inside = "https://169.254.169.254/"
	id := b.rows(inside)[inside]
	res := b.must(0, "deliver", "--once", "-o", "json", "--log-level", "debug")
	if s := b.summaryOf(res); s.Delivered != 1 || s.Dead != 1 {
		t.Errorf("summary %+v", s)
	}
	b.eachOnce(good, r)
	b.refused(inside, id, "blocked", "egress.allow_cidrs")
	if n := proxy.Connections(); n != 0 {
		t.Errorf("the proxy saw %d connections", n)
	}
	if strings.Contains(res.Stdout+res.Stderr, "Pw-7731") {
		t.Error("the proxy's password is in the output")
	}
}

// ownAddress is an IPv4 address of this machine that is not the loopback's, if it has
// one.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr().String()
		}
	}
	return "127.0.0.2"
}
