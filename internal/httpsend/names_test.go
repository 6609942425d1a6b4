package httpsend

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"example.com/whctl/internal/work"
)

// names is a name server: each name has a list of answers, taken in turn.
type names struct {
	mu    sync.Mutex
	all   map[string][][]string
	asked map[string]int
}

func (n *names) answer(name string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	turns := n.all[name]
	if len(turns) == 0 {
		return nil
	}
	n.asked[name]++
	return turns[(n.asked[name]-1)%len(turns)]
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
	if q.Type == dnsmessage.TypeA {
		for _, a := range n.answer(q.Name.String()) {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(a).To4())},
			})
		}
	}
	if n.all[q.Name.String()] == nil {
		m.RCode = dnsmessage.RCodeNameError
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// H27: a name is judged by the address that is dialled, each time it is.
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
	n := &names{all: map[string][][]string{
		"a.test.": {{"127.0.0.3"}}, "b.test.": {{"127.0.0.3", "127.0.0.2"}}, "c.test.": {{"127.0.0.2"}, {"127.0.0.3"}},
	}}
	s := newSender(t, Config{AllowCIDRs: cidrs("127.0.0.2/32")})
	s.resolver = n.resolver(t)
	count := map[work.Class]int{}
	for range 20 {
		for _, name := range []string{"a", "b", "c"} {
			o := send(t, s, request("http://"+name+".test:"+p+"/"))
			count[o.Class]++
			if name == "a" && (o.Class != work.BlockedName || !strings.Contains(o.Message, "egress.allow_cidrs")) {
				t.Errorf("%+v", o)
			}
		}
	}
	if count[work.OK] != 30 || count[work.BlockedName] != 30 {
		t.Errorf("%v", count)
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
