package httpsend

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"example.com/whctl/internal/work"
)

// names is a name server: each name has a list of answers, taken in turn with each
// question for its IPv4 addresses.
type names struct {
	mu      sync.Mutex
	all     map[string][][]string
	asked   map[string]int
	queries int
}

// answer lists the addresses of one kind; ok is whether there is such a name.
func (n *names) answer(name string, kind dnsmessage.Type) (addresses []netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queries++
	turns := n.all[name]
	if len(turns) == 0 {
		return nil, false
	}
	if kind == dnsmessage.TypeA {
		n.asked[name]++
	}
	for _, text := range turns[max(0, n.asked[name]-1)%len(turns)] {
		a := netip.MustParseAddr(text)
		if a.Is4() == (kind == dnsmessage.TypeA) {
			addresses = append(addresses, a)
		}
	}
	return addresses, true
}

// set makes addresses the one answer for name.
func (n *names) set(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[name] = [][]string{addresses}
}

// questions counts the queries since it was asked last.
func (n *names) questions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queries
	n.queries = 0
	return q
}

// resolver asks n only.
func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	n.asked = map[string]int{}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if _, err := pc.WriteTo(n.reply(buf[:size]), from); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { pc.Close(); done.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func (n *names) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	addresses, ok := n.answer(q.Name.String(), q.Type)
	for _, a := range addresses {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}}
		if a.Is4() {
			r.Body = &dnsmessage.AResource{A: a.As4()}
		}
		m.Answers = append(m.Answers, r)
	}
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// H27: a name is judged by the address that is dialled, each time it is. Of several
// addresses those inside are passed over, and what is left may be delivered to.
func TestNamesThatResolveInside(t *testing.T) {
	rec := receiveAt(t, "127.0.0.2:0", func(c net.Conn, r *receiver, id int) {
		s, err := readRequest(bufio.NewReader(c), id)
		if err == nil {
			r.add(s)
			say(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	p := port(t, rec)
	caught := trap(t, "127.0.0.3:"+p)
	const both, turns = 20, 10 // of 20 runs are delivered
	n := &names{all: map[string][][]string{
		"a.test.": {{"127.0.0.3"}}, "b.test.": {{"127.0.0.3", "127.0.0.2"}}, "c.test.": {{"127.0.0.2"}, {"127.0.0.3"}},
		"d.test.": {{"127.0.0.2", "127.0.0.3"}}, "e.test.": {{"127.0.0.2", "::ffff:127.0.0.3", "64:ff9b::7f00:3", "::1"}},
		"f.test.": {{"::ffff:127.0.0.3"}}, "g.test.": {{"64:ff9b::7f00:2"}}, "h.test.": {{"0.0.0.0", "::"}}, "hooks.allowed.test.": {{"127.0.0.3"}},
	}}
	s := newSender(t, Config{AllowCIDRs: cidrs("127.0.0.2/32"), AllowHosts: []string{"*.test", "hooks.allowed.test"}})
	s.resolver = n.resolver(t)
	for name, delivered := range map[string]int{"a": 0, "b": both, "c": turns, "d": both, "e": both, "f": 0, "g": 0, "h": 0, "hooks.allowed": 0} {
		got := 0
		for range 20 {
			o := send(t, s, request("http://"+name+".test:"+p+"/"))
			switch {
			case o.Class == work.OK:
				got++
			case o.Class != work.BlockedName, !strings.Contains(o.Message, "egress.allow_cidrs"):
				t.Errorf("%s: %+v", name, o)
			}
		}
		if got != delivered {
			t.Errorf("%s: %d of 20 delivered, want %d", name, got, delivered)
		}
	}
	if n := caught.connections(); n != 0 {
		t.Errorf("the trap saw %d connections", n)
	}
	// Where the receiver is gone, the other address is still none. The first failure tells.
	caught = trap(t, "127.0.0.3:0")
	for name, class := range map[string]work.Class{"b": work.BlockedName, "d": work.Connect} {
		wantClass(t, send(t, s, request("http://"+name+".test:"+port(t, caught)+"/")), class, 0)
	}
	if n := caught.connections(); n != 0 {
		t.Errorf("the trap saw %d connections", n)
	}
}

func TestNamesThatDoNotResolve(t *testing.T) {
	n := &names{all: map[string][][]string{"public.test.": {{"198.41.0.4"}}}}
	s := newSender(t, Config{})
	s.resolver = n.resolver(t)
	o := send(t, s, request("http://nowhere.test/TOK-5542"))
	wantClass(t, o, work.DNS, 0)
	if o.Message != "nowhere.test: no such host" {
		t.Error(o.Message)
	}
	// A public name keeps to the public ports, also where inside addresses may have others.
	public := newSender(t, loopback())
	public.resolver = s.resolver
	o = send(t, public, request("http://public.test:22/"))
	wantClass(t, o, work.BlockedName, 0)
	if !strings.Contains(o.Message, "egress.ports") {
		t.Error(o.Message)
	}
}

// A name server that does not answer is given up with the request. (The resolver would
// go on for 5 s each time, and end with its own deadline.)
func TestDialEndsWithTheRequest(t *testing.T) {
	ended := make(chan error, 1)
	s := newSender(t, Config{})
	s.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		select {
		case ended <- ctx.Err():
		default:
		}
		return nil, ctx.Err()
	}}
	r := request("http://nowhere.test/")
	r.Timeout = 50 * time.Millisecond
	wantClass(t, send(t, s, r), work.Timeout, 0)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	o := send(t, newSender(t, loopback()), request("http://"+l.Addr().String()+"/TOK-5542"))
	wantClass(t, o, work.Connect, 0)
	if o.Message != "127.0.0.1: connection refused" {
		t.Error(o.Message)
	}
}
