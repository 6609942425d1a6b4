package httpsend

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/whctl/internal/work"
)

// H17: net/http's Transport would send a POST with an Idempotency-Key a second time, by
// itself, when the kept-alive connection breaks: two calls, three POSTs, no error. One call
// must be one POST, whether there is a body or not, and however the connection breaks.
func TestOneCallIsOnePOST(t *testing.T) {
	for name, breakOff := range map[string]func(net.Conn) bool{
		"closed": func(net.Conn) bool { return false },
		"reset":  func(c net.Conn) bool { return c.(*net.TCPConn).SetLinger(0) != nil },
	} {
		for _, body := range []string{"", "{}"} {
			t.Run(name+" "+body, func(t *testing.T) {
				second := false
				rec := receive(t, func(c net.Conn, _ seen) bool {
					if second {
						return breakOff(c)
					}
					second = true
					return say(c, ok)
				})
				s := newSender(t, loopback())
				r := request(rec.url)
				r.Body = []byte(body)
				wantClass(t, send(t, s, r), work.OK, 200)
				wantClass(t, send(t, s, r), work.Reset, 0)
				if got := rec.seen(); len(got) != 2 || got[0].conn != got[1].conn {
					t.Errorf("%d POSTs by two calls: %v", len(got), got)
				}
			})
		}
	}
}

// A kept-alive connection that the receiver closed while it was idle costs no attempt:
// nothing was written on it.
func TestClosedIdleConnectionCostsNothing(t *testing.T) {
	for _, body := range []string{"", "{}"} {
		closed := make(chan struct{}, 1)
		rec := receive(t, func(c net.Conn, _ seen) bool {
			say(c, ok)
			c.Close()
			closed <- struct{}{}
			return false
		})
		s := newSender(t, loopback())
		r := request(rec.url)
		r.Body = []byte(body)
		for range 50 {
			wantClass(t, send(t, s, r), work.OK, 200)
			<-closed
		}
		if got := rec.seen(); len(got) != 50 {
			t.Errorf("%d POSTs by 50 calls", len(got))
		}
	}
}

// A request that broke off is tried on no other connection, idle or new.
func TestResendStopsAtOnce(t *testing.T) {
	both := make(chan struct{})
	arrived := make(chan struct{}, 2)
	var breaks atomic.Bool
	rec := receive(t, func(c net.Conn, _ seen) bool {
		if breaks.Load() {
			return false
		}
		arrived <- struct{}{}
		<-both
		return say(c, ok)
	})
	s := newSender(t, loopback())
	r := request(rec.url)
	r.Body = nil
	var sends sync.WaitGroup
	for range 2 {
		sends.Go(func() { wantClass(t, send(t, s, r), work.OK, 200) })
	}
	<-arrived
	<-arrived
	close(both)
	sends.Wait()
	breaks.Store(true)
	wantClass(t, send(t, s, r), work.Reset, 0)
	if got := rec.seen(); len(got) != 3 || rec.connections() != 2 {
		t.Errorf("%d POSTs by 3 calls, %d connections", len(got), rec.connections())
	}
}
