package httpsend

import (
	_ "embed"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/whctl/internal/work"
)

//go:embed testdata/verdicts.txt
var verdictTable string

// verdictRow is one line of the table.
type verdictRow struct {
	verdict string // admitted, blocked or invalid
	host    string // as it stands in the URL; "" where the URL is given
	url     string
}

// verdictRows reads the table. The blocks of the registries have to be there with their
// edges.
func verdictRows(t testing.TB) []verdictRow {
	t.Helper()
	var rows []verdictRow
	var blocks []netip.Prefix
	said := map[netip.Addr]string{}
	whole := false
	for line := range strings.Lines(verdictTable) {
		word, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		text = strings.TrimLeft(text, " ")
		switch word {
		case "", "#", "##":
			continue
		case "urls":
			whole = true
			continue
		case "block":
			prefix, _, _ := strings.Cut(text, " ")
			blocks = append(blocks, netip.MustParsePrefix(prefix))
			continue
		case "admitted", "blocked", "invalid":
		default:
			t.Fatalf("what is %q?", line)
		}
		if strings.HasPrefix(text, `"`) {
			var err error
			if text, err = strconv.Unquote(text); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		if whole {
			rows = append(rows, verdictRow{verdict: word, url: text})
			continue
		}
		rows = append(rows, verdictRow{verdict: word, host: text, url: "https://" + text + "/"})
		if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && word != "invalid" { // no half brackets
			said[addr] = word
		}
	}
	checkBlocks(t, blocks, said)
	return rows
}

func checkBlocks(t testing.TB, blocks []netip.Prefix, said map[netip.Addr]string) {
	t.Helper()
	if len(blocks) < 50 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, p := range blocks {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, last} {
			if said[a] != "blocked" {
				t.Errorf("%s in %s is %q in the table", a, p, said[a])
			}
		}
		for _, a := range []netip.Addr{first.Prev(), last.Next()} {
			if a.IsValid() && said[a] == "" {
				t.Errorf("%s beside %s is not in the table", a, p)
			}
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// The table, as URLs.
func TestVerdicts(t *testing.T) {
	rows := verdictRows(t)
	if len(rows) < 400 {
		t.Fatalf("%d rows", len(rows))
	}
	g, err := newGuard(Config{RequireHTTPS: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		to, r := g.target(row.url)
		got := "admitted"
		if r != nil {
			got = string(r.class)
		}
		if got != row.verdict {
			t.Errorf("%q is %s (%+v, %+v), want %s", row.url, got, to, r, row.verdict)
		}
		if got == string(work.Blocked) && !strings.Contains(r.text, "egress.") {
			t.Errorf("%q: no setting is named: %s", row.url, r.text)
		}
	}
}

// connections counts what passed the guard and would be connected to now; nothing is.
type connections struct {
	mu  sync.Mutex
	all []string
}

var errCounted = errors.New("counted, not connected")

func (c *connections) count(address string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, address)
	return errCounted
}

// take returns what was counted, and begins again.
func (c *connections) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// The table, sent to: for what is refused no name is asked for and no connection made,
// also where something listens. What is admitted shows that the count works.
func TestNothingLeavesForTheRefused(t *testing.T) {
	caught := trap(t, "127.0.0.1:0")
	p := port(t, caught)
	n := &names{all: map[string][][]string{}}
	var tried connections
	// The trap's port is admitted, so that only the host can be what is refused.
	number, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(t, Config{RequireHTTPS: true, Ports: []int{443, number}})
	s.resolver = n.resolver(t)
	s.connects = tried.count
	for _, row := range verdictRows(t) {
		url := row.url
		if row.host != "" {
			url = "https://" + row.host + ":" + p + "/"
		}
		o := send(t, s, request(url))
		made, asked := tried.take(), n.questions()
		if row.verdict == "admitted" {
			if len(made)+asked == 0 {
				t.Errorf("%q: nothing was tried: %+v", url, o)
			}
			continue
		}
		if string(o.Class) != row.verdict || len(made) != 0 || asked != 0 {
			t.Errorf("%q: %s (%s), %d questions, connections %v", url, o.Class, o.Message, asked, made)
		}
	}
	if n := caught.connections(); n != 0 {
		t.Errorf("the trap saw %d connections", n)
	}
}

// The table's addresses, as what a name resolves to: they are judged where the
// connection is made, and the refused ones are not connected to.
func TestVerdictsAtTheDial(t *testing.T) {
	n := &names{all: map[string][][]string{}}
	var tried connections
	s := newSender(t, Config{RequireHTTPS: true})
	s.resolver = n.resolver(t)
	s.connects = tried.count
	judged := map[string]int{}
	for _, row := range verdictRows(t) {
		host, why := mapHost(strings.Trim(row.host, "[]"))
		addr, err := netip.ParseAddr(host)
		if row.verdict == "invalid" || why != "" || err != nil || addr.Zone() != "" {
			continue
		}
		judged[row.verdict]++
		n.set("name.test.", addr.String())
		o := send(t, s, request("https://name.test/"))
		made := tried.take()
		if row.verdict == "blocked" {
			if o.Class != work.BlockedName || len(made) != 0 || !strings.Contains(o.Message, "egress.allow_cidrs") {
				t.Errorf("%s: %s (%s), connections %v", row.host, o.Class, o.Message, made)
			}
			continue
		}
		if o.Class != work.Connect || len(made) != 1 || made[0] != netip.AddrPortFrom(addr, 443).String() {
			t.Errorf("%s: %s (%s), connections %v", row.host, o.Class, o.Message, made)
		}
	}
	if judged["blocked"] < 150 || judged["admitted"] < 50 {
		t.Errorf("%v", judged)
	}
	// What a resolver does not say: IPv4 in its IPv6 form, a zone, and text that is no address.
	if err := s.control(t.Context(), "tcp", "[::ffff:8.8.8.8]:443", nil); !errors.Is(err, errCounted) || len(tried.take()) != 1 {
		t.Errorf("%v", err)
	}
	for _, address := range []string{"[fe80::1%eth0]:443", "[::ffff:127.0.0.1]:443", "[::1%lo]:443", "127.0.0.1:443", "localhost:443", "8.8.8.8", "", "/run/x.sock"} {
		if err := s.control(t.Context(), "tcp", address, nil); err == nil || len(tried.take()) != 0 {
			t.Errorf("%q: %v", address, err)
		}
	}
}
