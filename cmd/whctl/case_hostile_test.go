package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// raw is a receiver on a plain socket, below TLS, that is a destination.
func (b *theBench) raw(name string, serve func(*testbed.Conn)) *testbed.Endpoint {
	b.t.Helper()
	r := testbed.Raw(b.t, serve)
	b.destination(name, r)
	return r
}

// attempt is a column of a delivery's one attempt.
func (b *theBench) attempt(id, column string) string {
	b.t.Helper()
	return testbed.QueryString(b.t, b.db, `
SELECT (`+column+`)::text FROM whctl.attempts a JOIN whctl.envelopes e ON e.id = a.delivery_id WHERE e.delivery_id = $1`, id)
}

// H10: a redirect to a page that says 200.
func TestH10RedirectToAPageThatSays200(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			b := newBench(t)
			defer b.check()
			r := b.receiver("r", func(w http.ResponseWriter, req *http.Request, _ *testbed.Request) {
				if req.URL.Path == "/hook" {
					w.Header().Set("Location", "/fine")
					w.WriteHeader(status)
				}
			})
			id := b.due("r", 1)[0]
			b.once()
			if r.Count() != 1 || b.status(id, "state") != "dead" || b.attempt(id, "status") != fmt.Sprint(status) {
				t.Errorf("%d requests, state %s, status %s", r.Count(), b.status(id, "state"), b.attempt(id, "status"))
			}
			if got := b.attempt(id, "message"); !strings.Contains(got, "redirects are not followed") {
				t.Errorf("message %q", got)
			}
		})
	}
}

// H11: an answer without end. The time limit here is far away: what ends the answer is
// its bound.
func TestH11AnswerWithoutEnd(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(strings.NewReplacer("timeout: 2s", "timeout: 10m", "lease: 10s", "lease: 15m", "body: raw", "body: raw\n    success_body_max: 1000").Replace(settings))
	pushed := make(chan int, 1)
	b.raw("endless", func(c *testbed.Conn) {
		req, err := c.Request()
		if err != nil {
			return
		}
		req.Answered(http.StatusOK)
		n := 0
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 4096, strings.Repeat("x", 4096))
		for text := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"; err == nil; text = chunk {
			var some int
			some, err = io.WriteString(c, text)
			n += some
		}
		pushed <- n
	})
	measured := make(chan struct{})
	b.receiver("normal", func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(measured) })
	endless, normal := b.due("endless", 1)[0], b.due("normal", 1)[0]
	p := b.start("deliver", "--once")
	if n := testbed.Await(t, "the end of the endless answer", pushed); n > 1<<20 {
		t.Errorf("the receiver got rid of %d bytes", n)
	}
	until(t, "its result", func() bool { return b.status(endless, "state") == "delivered" })
	if peak := peakMemory(t, p.PID); peak > 100<<20 {
		t.Errorf("%d MiB of memory", peak>>20)
	}
	close(measured)
	if res := p.Wait(); res.Code != 0 || b.status(normal, "state") != "delivered" {
		t.Errorf("exit %d, the normal one is %s: %s", res.Code, b.status(normal, "state"), res.Stderr)
	}
	if got := b.attempt(endless, "excerpt"); got != strings.Repeat("x", 1000)+" [cut]" {
		t.Errorf("excerpt of %d bytes: …%q", len(got), got[max(0, len(got)-20):])
	}
}

// H12: one byte at a time. The time limit covers the head, and the only place is free
// for the next row.
func TestH12OneByteAtATime(t *testing.T) {
	b := newBench(t)
	defer b.check()
	written := make(chan int, 1)
	var slowed atomic.Bool
	r := b.raw("r", func(c *testbed.Conn) {
		req, err := c.Request()
		if err != nil {
			return
		}
		if slowed.Swap(true) {
			req.Answered(http.StatusOK)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return
		}
		written <- dribble(c, "HTTP/1.1 200 OK\r\nX-Slow: "+strings.Repeat("x", 1000))
	})
	ids := b.due("r", 2)
	if s := b.once("--concurrency", "1"); s.Retried != 1 || s.Delivered != 1 {
		t.Fatalf("summary %+v", s)
	}
	slow := r.Requests()[0].Key()
	if b.status(slow, "state") != "scheduled" || b.attempt(slow, "class") != "2" || b.attempt(slow, "status") != "" {
		t.Errorf("state %s, class %s, status %q", b.status(slow, "state"), b.attempt(slow, "class"), b.attempt(slow, "status"))
	}
	if b.attempt(slow, "latency_us >= 2000000") != "true" {
		t.Errorf("given up after %s µs, want 2 s", b.attempt(slow, "latency_us"))
	}
	// A byte at once and one each half second; a limit that counted from byte to byte would
	// let all of them through.
	if n := <-written; n > 50 {
		t.Errorf("the receiver wrote %d bytes before whctl had left", n)
	}
	if keys(r)[ids[0]] != 1 || keys(r)[ids[1]] != 1 {
		t.Errorf("requests %v", keys(r))
	}
}

// dribble writes a byte each half second until the other side has left, and says how
// many it was.
func dribble(c *testbed.Conn, text string) int {
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = io.Copy(io.Discard, c.R)
	}()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for n := range text {
		if _, err := io.WriteString(c, text[n:n+1]); err != nil {
			return n
		}
		select {
		case <-tick.C:
		case <-left:
			return n + 1
		}
	}
	return len(text)
}

// H13: an answer the database cannot hold.
func TestH13AnAnswerTheDatabaseCannotHold(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(strings.Replace(settings, "body: raw", "body: raw\n    success_body_max: 100", 1))
	answers := []struct {
		status     int
		body, want string
	}{
		{500, "a\x00b", "a\uFFFDb [cleaned]"},
		{500, "\xff\xfe\xfa", "\uFFFD [cleaned]"},
		{500, `{"e":"\u0000"}`, "{\"e\":\"\uFFFD\"} [cleaned]"},
		{200, "\x00", "\uFFFD [cleaned]"},
	}
	var rs []*testbed.Endpoint
	var ids []string
	for i, a := range answers {
		rs = append(rs, b.receiver(fmt.Sprint("d", i), func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
			w.WriteHeader(a.status)
			_, _ = io.WriteString(w, a.body)
		}))
		ids = append(ids, b.due(fmt.Sprint("d", i), 1)...)
	}
	if s := b.once(); s.Retried != 3 || s.Delivered != 1 {
		t.Errorf("summary %+v", s)
	}
	b.eachOnce(ids, rs...)
	if n := b.count(`state = 'leased'`); n != 0 {
		t.Errorf("%d are leased", n)
	}
	for i, id := range ids {
		var shown struct {
			Attempts []struct {
				Excerpt string `json:"excerpt"`
			} `json:"attempts"`
		}
		if err := json.Unmarshal([]byte(b.must(0, "show", id, "-o", "json").Stdout), &shown); err != nil {
			t.Fatal(err)
		}
		if len(shown.Attempts) != 1 || shown.Attempts[0].Excerpt != answers[i].want {
			t.Errorf("%q is shown as %+v, want %q", answers[i].body, shown.Attempts, answers[i].want)
		}
	}
}

// H17: a POST resent behind whctl's back. No debug setting of the Go runtime brings that
// back either.
func TestH17APostResentBehindOnesBack(t *testing.T) {
	for name, debug := range map[string]string{"plain": "", "debugging": "http2client=1,http2debug=1,httpmuxgo121=1"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			defer b.check()
			b.env = append(b.env, "GODEBUG="+debug)
			var answered atomic.Bool
			r := b.raw("r", func(c *testbed.Conn) {
				for {
					req, err := c.Request()
					if err != nil || answered.Swap(true) {
						return
					}
					req.Answered(http.StatusOK)
					if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
						return
					}
				}
			})
			ids := b.due("r", 2)
			if s := b.once("--concurrency", "1"); s.Delivered != 1 || s.Retried != 1 {
				t.Errorf("summary %+v", s)
			}
			requests := r.Requests()
			b.eachOnce(ids, r)
			if len(requests) != 2 || requests[0].Conn != requests[1].Conn {
				t.Fatalf("not two requests on one connection:\n%s", r.Log())
			}
			if got := b.history(requests[1].Key()); got != "1.1 reset" || b.status(requests[1].Key(), "state") != "scheduled" {
				t.Errorf("history %q, state %s", got, b.status(requests[1].Key(), "state"))
			}
		})
	}
}

// H18: certificate trouble.
func TestH18CertificateTrouble(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.env = []string{"GODEBUG=tls10server=1,tlsrsakex=1,tls3des=1"}
	kinds := map[string]string{}
	var rs []*testbed.Endpoint
	for kind, o := range map[string]testbed.CertificateOptions{
		"expired": {Expired: true}, "wrong host": {Hosts: []string{"other.example"}}, "unknown authority": {Stranger: true},
	} {
		c := testbed.Certificate(t, o)
		r := testbed.Receiver(t, testbed.ReceiverOptions{Certificate: &c})
		name := strings.ReplaceAll(kind, " ", "-")
		b.destination(name, r)
		rs = append(rs, r)
		kinds[b.due(name, 1)[0]] = kind
	}
	good := testbed.Certificate(t, testbed.CertificateOptions{})
	old := testbed.Raw(t, func(c *testbed.Conn) {
		secured := tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
		if secured.HandshakeContext(t.Context()) == nil {
			t.Error("a handshake below TLS 1.2 was made")
		}
	}, testbed.ReceiverOptions{Plain: true})
	b.db.Destination(t, "old", strings.Replace(old.URL, "http:", "https:", 1))
	rs = append(rs, old)
	kinds[b.due("old", 1)[0]] = "protocol"

	if s := b.once(); s.Retried != 4 || s.ByClass["tls"] != 4 {
		t.Errorf("summary %+v", s)
	}
	for id, kind := range kinds {
		if got := b.attempt(id, "message"); !strings.HasPrefix(got, kind+": ") {
			t.Errorf("message %q, want the kind %q", got, kind)
		}
		if b.status(id, "state") != "scheduled" || b.status(id, "class") != "tls" || b.attempt(id, "status") != "" {
			t.Errorf("%s: state %s, class %s, status %q", kind, b.status(id, "state"), b.status(id, "class"), b.attempt(id, "status"))
		}
	}
	for _, r := range rs {
		if r.Count() != 0 || r.Connections() == 0 {
			t.Errorf("%s: %d requests over %d connections", r.URL, r.Count(), r.Connections())
		}
	}
}

// H32: a receiver that writes log lines.
func TestH32AReceiverThatWritesLogLines(t *testing.T) {
	const forged = "\r\nlevel=error msg=\"sweep deleted 9999 rows\""
	b := newBench(t)
	defer b.check()
	b.receiver("body", func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "boom"+forged+"\r\n{\"level\":\"ERROR\",\"msg\":\"sweep deleted 9999 rows\"}\r\n")
	})
	reason := func(text string, status int) func(*testbed.Conn) {
		return func(c *testbed.Conn) {
			if req, err := c.Request(); err == nil {
				req.Answered(status)
				_, _ = io.WriteString(c, "HTTP/1.1 500 boom"+text+"\r\nContent-Length: 0\r\n\r\n")
			}
		}
	}
	b.raw("reason", reason(strings.TrimLeft(forged, "\r\n"), 500))
	b.raw("line", reason(forged, 0)) // no header line: no answer in HTTP
	for _, name := range []string{"body", "reason", "line"} {
		b.due(name, 1)
	}
	lines := map[string]int{}
	for _, format := range []string{"text", "json"} {
		res := b.must(0, "deliver", "--once", "--log-format", format, "--log-level", "debug")
		b.dueAgain()
		for line := range strings.Lines(res.Stderr) {
			lines[format]++
			var event struct {
				Time, Level, Msg string
			}
			switch {
			case format == "json" && (json.Unmarshal([]byte(line), &event) != nil || event.Time == "" || event.Msg == "" || event.Level == "ERROR"):
				t.Errorf("no event of ours: %s", line)
			case format == "text" && !regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO) msg=`).MatchString(line):
				t.Errorf("no event of ours: %s", line)
			}
		}
		wantHarmless(t, format, res.Stderr+res.Stdout)
	}
	// Both runs met the same: as many events.
	if lines["text"] != lines["json"] || lines["text"] < 3 {
		t.Errorf("lines: %v", lines)
	}
}
