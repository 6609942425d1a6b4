package httpsend

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

const refusedAnswer = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"

// A receiver that answers twice must not have the next delivery taken for delivered.
// Here the second answer comes with the first one, so that it always is there before
// the next request; net/http alone takes it for the next answer now and then.
func TestSecondAnswerIsNobodys(t *testing.T) {
	const body = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
	for name, twice := range map[string]string{
		"without body": ok + ok, "with body": body + body, "body where none is allowed": "HTTP/1.1 204 No Content\r\n\r\n" + ok,
		"beginning of one": ok + "HTTP/1.1 200 ",
	} {
		t.Run(name, func(t *testing.T) {
			rec := receive(t, func(c net.Conn, s seen) bool {
				if s.body == "bad" {
					return say(c, refusedAnswer)
				}
				return say(c, twice)
			})
			s := newSender(t, loopback())
			good, bad := request(rec.url), request(rec.url)
			bad.Body = []byte("bad")
			for range 500 {
				if o := send(t, s, good); o.Class != work.OK {
					t.Errorf("%+v", o)
				}
				wantClass(t, send(t, s, bad), work.Unavailable, 500)
			}
			if n := len(rec.seen()); n != 1000 {
				t.Errorf("%d POSTs by 1000 calls", n)
			}
		})
	}
}

// A receiver that sends an answer to nothing on an idle connection, or ends it: the next
// delivery goes over a new one.
func TestStrayBytesInTheSocket(t *testing.T) {
	ours := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})}}
	for name, then := range map[string]func(above, socket net.Conn){
		"answer": func(above, _ net.Conn) { say(above, ok) },
		"byte":   func(above, _ net.Conn) { say(above, "x") },
		"end":    func(above, _ net.Conn) { above.Close() },
		"reset":  func(_, socket net.Conn) { _ = socket.(*net.TCPConn).SetLinger(0); socket.Close() },
	} {
		for _, secured := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " tls ", secured), func(t *testing.T) {
				more, said := make(chan struct{}), make(chan struct{})
				rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
					above := c
					if secured {
						above = tls.Server(c, config)
					}
					in := bufio.NewReader(above)
					for n := 0; ; n++ {
						s, err := readRequest(in, id)
						if err != nil {
							return
						}
						r.add(s)
						if id == 2 {
							say(above, refusedAnswer)
							continue
						}
						say(above, ok)
						<-more
						then(above, c)
						close(said)
					}
				})
				if secured {
					rec.url = strings.Replace(rec.url, "http:", "https:", 1)
				}
				c := loopback()
				c.CAFile = ours.file(t)
				s := newSender(t, c)
				wantClass(t, send(t, s, request(rec.url)), work.OK, 200)
				close(more)
				<-said
				wantClass(t, send(t, s, request(rec.url)), work.Unavailable, 500)
				if got := rec.seen(); len(got) != 2 || got[1].conn != 2 {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}
