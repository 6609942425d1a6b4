package httpsend

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// answering is a receiver that always says the same and then closes.
func answering(t *testing.T, text string) *receiver {
	return receive(t, func(c net.Conn, _ seen) bool { say(c, text); return false })
}

func TestStatusIsTheAnswer(t *testing.T) {
	s := newSender(t, loopback())
	for _, c := range []struct {
		answer  string
		class   work.Class
		status  int
		message string
	}{
		{ok, work.OK, 200, ""},
		{"HTTP/1.1 204 No Content\r\n\r\n", work.OK, 204, ""},
		{"HTTP/1.0 200\r\n\r\n", work.OK, 200, ""},
		{"HTTP/1.1 299 Fine\r\nContent-Length: 0\r\n\r\n", work.OK, 299, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", work.OK, 200, "the answer's body broke off"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", work.OK, 200, "the answer's body broke off"},
		{"HTTP/1.1 500 level=error\r\nContent-Length: 9\r\n\r\nab", work.Unavailable, 500, "500 Internal Server Error: the answer's body broke off"},
		{"HTTP/1.1 302 Found\r\nLocation: /token\r\nContent-Length: 0\r\n\r\n", work.Redirect, 302, "302 Found: redirects are not followed"},
		{"HTTP/1.1 308 X\r\nLocation: https://u:p@New.Example:8/token?q\r\nContent-Length: 0\r\n\r\n", work.Redirect, 308, "308 Permanent Redirect: redirects are not followed; this one leads to new.example"},
		{"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", work.Rejected, 410, "410 Gone"},
		{"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", work.Protocol, 99, "099 : no final status that HTTP knows"},
		{"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", work.Protocol, 999, "999 : no final status that HTTP knows"},
		{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok, work.OK, 200, ""},
		{"", work.Reset, 0, "127.0.0.1 closed the connection without an answer"},
		{"HTTP/1.1 200 OK\r\nX: 1\r\n", work.Reset, 0, "127.0.0.1 closed the connection without an answer"},
		{"220 mail.example ESMTP\r\n\r\n", work.Protocol, 0, "the answer of 127.0.0.1 is no HTTP"},
		{"HTTP/1.1 2x0 OK\r\n\r\n", work.Protocol, 0, "the answer of 127.0.0.1 is no HTTP"},
		{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", work.Protocol, 0, "the answer's head is longer than 64 KiB"},
	} {
		rec := answering(t, c.answer)
		o := send(t, s, request(rec.url))
		wantClass(t, o, c.class, c.status)
		if o.Message != c.message {
			t.Errorf("%.40q: message %q, want %q", c.answer, o.Message, c.message)
		}
		if n := len(rec.seen()); n != 1 {
			t.Errorf("%.40q: %d POSTs", c.answer, n)
		}
	}
}

// A receiver that changes the protocol has not answered; nothing is read of what it
// says then.
func TestOtherProtocol(t *testing.T) {
	done := make(chan struct{})
	rec := receive(t, func(c net.Conn, _ seen) bool {
		say(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello")
		<-done
		return false
	})
	o := send(t, newSender(t, loopback()), request(rec.url))
	close(done)
	wantClass(t, o, work.Protocol, 101)
	if o.Message != "101 Switching Protocols: no final status that HTTP knows" || o.Excerpt != "" {
		t.Errorf("%+v", o)
	}
}

// H10: a 302 to a page that says 200 is not a delivery.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var rec *receiver
	rec = receive(t, func(c net.Conn, _ seen) bool {
		return say(c, "HTTP/1.1 302 Found\r\nLocation: "+rec.url+"/ok\r\nContent-Length: 0\r\n\r\n")
	})
	s := newSender(t, loopback())
	wantClass(t, send(t, s, request(rec.url)), work.Redirect, 302)
	if n := len(rec.seen()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Informational answers without end are no answer: they stop at the bound for heads.
func TestEndlessInformation(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool {
		for say(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") {
		}
		return false
	})
	wantClass(t, send(t, newSender(t, loopback()), request(rec.url)), work.Protocol, 0)
}

// H11: the status was the answer; a body without end is read up to a bound and ends the
// connection.
func TestEndlessBody(t *testing.T) {
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 4096, strings.Repeat("x", 4096))
	written := make(chan int, 1)
	// The kernel remembers from connection to connection how fast the way to an address
	// is, and buffers as much: nobody else has used this one.
	address := fmt.Sprintf("127.83.%d.%d:0", os.Getpid()>>8&255, os.Getpid()&255)
	rec := receiveAt(t, address, func(c net.Conn, r *receiver, id int) {
		s, err := readRequest(bufio.NewReader(c), id)
		if err != nil {
			return
		}
		r.add(s)
		n := 0
		for text := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"; say(c, text); text = chunk {
			n += len(text)
		}
		written <- n
	})
	config := loopback()
	config.AllowCIDRs = cidrs("127.83.0.0/16")
	s := newSender(t, config)
	for _, keep := range []int{0, 100, 1 << 30} {
		r := request(rec.url)
		r.SuccessBodyMax = keep
		o := send(t, s, r)
		wantClass(t, o, work.OK, 200)
		kept, marked := strings.CutSuffix(o.Excerpt, cutMark)
		if len(kept) != min(keep, maxKept) || marked != (keep > 0) {
			t.Errorf("keep %d: %d bytes, marked %v", keep, len(kept), marked)
		}
		if n := <-written; n > 1<<20 {
			t.Errorf("the receiver got rid of %d bytes", n)
		}
	}
}

// A body that stands still costs neither the outcome nor the request's whole time limit.
func TestSlowBody(t *testing.T) {
	done := make(chan struct{})
	rec := receive(t, func(c net.Conn, _ seen) bool {
		say(c, "HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\ntry later")
		<-done
		return false
	})
	r := request(rec.url)
	r.Timeout = time.Hour
	o := send(t, newSender(t, loopback()), r)
	close(done)
	wantClass(t, o, work.Unavailable, 503)
	if o.Excerpt != "try later [cut]" || !strings.Contains(o.Message, "broke off") {
		t.Errorf("%+v", o)
	}
}

// H24: a receiver that answers 413 after the headers, and closes, has answered. To the
// writer this is a broken pipe.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	for name, then := range map[string]func(net.Conn){
		"closes": func(net.Conn) {},
		"resets": func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite(); _, _ = io.CopyN(io.Discard, c, 64<<10) },
	} {
		t.Run(name, func(t *testing.T) {
			rec := receiveWith(t, func(c net.Conn, r *receiver, id int) {
				head := make([]byte, 100)
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				say(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
				then(c)
			})
			s := newSender(t, loopback())
			r := request(rec.url)
			r.Body = make([]byte, 10<<20)
			for range 50 {
				o := send(t, s, r)
				wantClass(t, o, work.Rejected, 413)
			}
		})
	}
}

// H13: every excerpt can be stored, and says that it was cleaned.
func TestExcerptsCanBeStored(t *testing.T) {
	s := newSender(t, loopback())
	for body, want := range map[string]string{
		"a\x00b":                        "a\uFFFDb [cleaned]",
		"\xff\xfe\xfa":                  "\uFFFD [cleaned]",
		`{"e":"\u0000"}`:                "{\"e\":\"\uFFFD\"} [cleaned]",
		"line\r\nlevel=error msg=\"x\"": `line  level=error msg="x"`,
		strings.Repeat("é", 3000):       strings.Repeat("é", maxExcerpt/2) + cutMark,
		"x" + strings.Repeat("é", 3000): "x" + strings.Repeat("é", maxExcerpt/2-1) + cutMark,
		strings.Repeat("\xffa", 3000):   strings.Repeat("\uFFFDa", maxExcerpt/4) + bothMark,
	} {
		rec := answering(t, fmt.Sprintf("HTTP/1.1 500 X\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		o := send(t, s, request(rec.url))
		wantClass(t, o, work.Unavailable, 500)
		if o.Excerpt != want || len(o.Excerpt) > 2<<10 {
			t.Errorf("%.20q: %q, want %q", body, o.Excerpt, want)
		}
	}
	r := request(answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\x00").url)
	r.SuccessBodyMax = 10
	if o := send(t, s, r); o.Class != work.OK || o.Excerpt != "\uFFFD [cleaned]" {
		t.Errorf("%+v", o)
	}
}

func TestCleanCutsBetweenLetters(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		cut   bool
		want  string
	}{
		{"é\xc3", 10, true, "é [cut]"}, // the reader cut it
		{"é\xc3", 10, false, "é\uFFFD [cleaned]"},
		{"aéé", 4, false, "aé [cut]"},
		{"aé", 3, false, "aé"},
		{"", 0, false, ""},
		{"", 0, true, "[cut]"},
	} {
		if got := clean(c.text, c.limit, c.cut); strings.TrimSpace(got) != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}
