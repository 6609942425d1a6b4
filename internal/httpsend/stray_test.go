package httpsend

import (
	"bufio"
	"io"
	"log"
	"net"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

const refusedAnswer = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"

// A receiver that answers twice must not have the next delivery taken for delivered.
// Here the second answer comes with the first one, so that it always is there before
// the next request.
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

func logTo(t *testing.T, w io.Writer) {
	before := log.Default().Writer()
	log.SetOutput(w)
	t.Cleanup(func() { log.SetOutput(before) })
}

// A receiver that sends an answer to nothing on an idle connection: the next delivery
// goes over a new one. What it sent appears in no log.
func TestStrayAnswerLaterEndsTheConnection(t *testing.T) {
	var logged strings.Builder
	logTo(t, &logged)
	more, gone := make(chan struct{}), make(chan struct{})
	rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
		in := bufio.NewReader(c)
		for n := 0; ; n++ {
			s, err := readRequest(in, id)
			if err != nil {
				if id == 1 {
					close(gone)
				}
				return
			}
			r.add(s)
			if id == 2 {
				say(c, refusedAnswer)
				continue
			}
			say(c, ok)
			<-more
			say(c, ok)
		}
	})
	s := newSender(t, loopback())
	wantClass(t, send(t, s, request(rec.url)), work.OK, 200)
	close(more)
	<-gone
	wantClass(t, send(t, s, request(rec.url)), work.Unavailable, 500)
	if got := rec.seen(); len(got) != 2 || got[1].conn != 2 {
		t.Errorf("%+v", got)
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", logged.String())
	}
}
