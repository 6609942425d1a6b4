package httpsend

import (
	"net"
	"testing"

	"example.com/whctl/internal/work"
)

// H17: when a kept-alive connection breaks, net/http sends a POST with an
// Idempotency-Key a second time: two calls, three POSTs, no error. One call must be one
// POST, whether there is a body or not, and however the connection breaks.
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
