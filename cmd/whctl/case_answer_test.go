package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// H06: eight means eight.
func TestH06EightMeansEight(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", testbed.Answer(500))
	id := b.due("r", 1)[0]
	for run := 1; run <= 12; run++ {
		b.once()
		want := "scheduled"
		if run >= 8 {
			want = "dead"
		}
		if got := b.status(id, "state"); got != want {
			t.Errorf("after run %d: %s, want %s", run, got, want)
		}
		b.dueAgain()
	}
	if r.Count() != 8 {
		t.Errorf("%d POSTs, want 8", r.Count())
	}
	want := make([]string, 8)
	for i := range want {
		want[i] = fmt.Sprintf("1.%d unavailable", i+1)
	}
	if got := b.history(id); got != strings.Join(want, ", ") {
		t.Errorf("history %q", got)
	}
}

// waits are the seconds between the recording of attempt n and the due time it gave.
func (b *theBench) waits(n int) (waits []float64) {
	b.t.Helper()
	err := b.db.Admin.SelectContext(b.t.Context(), &waits, `
SELECT extract(epoch FROM d.next_attempt_at - a.finished_at)::float8
FROM whctl.deliveries d JOIN whctl.attempts a ON a.delivery_id = d.id AND a.attempt = $1 AND d.attempts = $1
WHERE d.state = 0 ORDER BY d.id`, n)
	if err != nil {
		b.t.Fatal(err)
	}
	return waits
}

// H07: the values of the backoff.
func TestH07BackoffValues(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(strings.Replace(settings, "cap: 1h", "cap: 600s", 1))
	b.receiver("r", testbed.Answer(503))
	b.due("r", 50)
	for i, want := range []float64{30, 60, 120, 240, 480, 600, 600} {
		b.once()
		waits := b.waits(i + 1)
		if len(waits) != 50 {
			t.Fatalf("%d waits after attempt %d, want 50", len(waits), i+1)
		}
		different := map[float64]bool{}
		for _, w := range waits {
			different[w] = true
			if w < want*0.999 || w > want*1.2001 {
				t.Errorf("wait of %.1f s after attempt %d, want %.0f to %.0f", w, i+1, want, want*1.2)
			}
		}
		if len(different) < 2 {
			t.Errorf("all waits after attempt %d are equal", i+1)
		}
		b.dueAgain()
	}
}

// H08: Retry-After that lies.
func TestH08RetryAfterThatLies(t *testing.T) {
	cases := []struct {
		value    func() string
		min, max float64
	}{
		{fixed("120"), 120, 150},
		{func() string { return time.Now().Add(120 * time.Second).UTC().Format(http.TimeFormat) }, 119, 150},
		{fixed("0"), 30, 36.01},
		{fixed("-5"), 30, 36.01},
		{fixed("1.5"), 30, 36.01},
		{fixed("soon"), 30, 36.01},
		{fixed("Sun, 06 Nov 1994 08:49:37 GMT"), 30, 36.01},
		{fixed("1000000000000"), 86400, 86400},
		{fixed("9223372037"), 86400, 86400},
	}
	b := newBench(t)
	defer b.check()
	for i, c := range cases {
		name := fmt.Sprint("d", i)
		b.receiver(name, func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
			w.Header().Set("Retry-After", c.value())
			w.WriteHeader(http.StatusTooManyRequests)
		})
		b.due(name, 1)
	}
	if s := b.once(); s.Retried != len(cases) {
		t.Errorf("summary %+v, want all retried", s)
	}
	for i, w := range b.waits(1) {
		if w < cases[i].min-0.001 || w > cases[i].max+0.001 {
			t.Errorf("Retry-After %q: waits %.3f s, want %.0f to %.0f", cases[i].value(), w, cases[i].min, cases[i].max)
		}
	}
}

func fixed(s string) func() string { return func() string { return s } }

// H09: status classes.
func TestH09StatusClasses(t *testing.T) {
	want := map[string][]int{
		"delivered": {200, 201, 202, 203, 204, 206, 226, 299},
		"scheduled": {408, 425, 429, 500, 501, 502, 503, 504, 507, 511, 520, 521, 522, 524, 527, 530, 598, 599},
		"dead":      {400, 401, 403, 404, 405, 409, 410, 413, 415, 421, 422, 423, 431, 451, 499},
	}
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		code, _ := strconv.Atoi(string(req.Body))
		w.WriteHeader(code)
	})
	for _, codes := range want {
		for _, code := range codes {
			b.db.Enqueue(t, "r", fmt.Sprint(code), fmt.Sprint(code))
		}
	}
	b.once()
	for state, codes := range want {
		for _, code := range codes {
			if n := b.count(`subject = $1 AND state = $2 AND status = $3`, fmt.Sprint(code), state, code); n != 1 {
				t.Errorf("%d: is %s, want %s", code, testbed.QueryString(t, b.db, `SELECT state || ' ' || status FROM whctl.delivery_status WHERE subject = $1`, fmt.Sprint(code)), state)
			}
		}
	}
	if r.Count() != 41 {
		t.Errorf("%d requests, want 41", r.Count())
	}
}

// H14: the bytes are the contract.
func TestH14TheBytesAreTheContract(t *testing.T) {
	payload := `{"b":1.0,  "a":12345678901234567890,"a":2,"u":"\u00e9é"}` + "\n"
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", testbed.Script(500, 200))
	line := fmt.Sprintf(`{"destination":"r","type":"case","subject":"s","payload_base64":%q}`, base64.StdEncoding.EncodeToString([]byte(payload)))
	cmd := b.cmd("enqueue", "--file", "-")
	cmd.Stdin = strings.NewReader(line + "\n")
	if res := testbed.Run(t, cmd); res.Code != 0 {
		t.Fatalf("enqueue: exit %d: %s", res.Code, res.Stderr)
	}
	b.once()
	b.dueAgain()
	b.once()
	if r.Count() != 2 {
		t.Fatalf("%d requests, want 2", r.Count())
	}
	for _, req := range r.Requests() {
		if string(req.Body) != payload || req.ContentLength != int64(len(payload)) {
			t.Errorf("body %q with Content-Length %d, want %q", req.Body, req.ContentLength, payload)
		}
	}
}

// H20: what stays the same between tries. (The redrive is completed by the change that
// adds it.)
func TestH20WhatStaysTheSame(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", testbed.Script(500, 500, 400))
	id := b.due("r", 1)[0]
	for range 3 {
		b.once()
		b.dueAgain()
	}
	requests := r.Requests()
	if len(requests) != 3 || b.status(id, "state") != "dead" {
		t.Fatalf("%d requests, state %s", len(requests), b.status(id, "state"))
	}
	attempts := map[string]bool{}
	for i, req := range requests {
		if req.Key() != id || req.Header.Get("webhook-id") != id || !bytes.Equal(req.Body, requests[0].Body) {
			t.Errorf("try %d: key %q, body %q", i+1, req.Key(), req.Body)
		}
		if got := req.Header.Get("X-Webhook-Attempt"); got != strconv.Itoa(i+1) {
			t.Errorf("try %d says attempt %s", i+1, got)
		}
		if got := req.Header.Get("X-Webhook-Generation"); got != "1" {
			t.Errorf("try %d says generation %s", i+1, got)
		}
		attempts[req.Header.Get("X-Webhook-Attempt-Id")] = true
	}
	if len(attempts) != 3 {
		t.Errorf("%d attempt ids, want 3", len(attempts))
	}
}

// H23: a bad day at the receiver is not a failed run.
func TestH23ExitCodeOfABadDay(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.receiver("r", testbed.Answer(500))
	b.due("r", 50)
	if s := b.once(); s.Claimed != 50 || s.Retried != 50 || s.Delivered != 0 || s.Dead != 0 {
		t.Errorf("summary %+v", s)
	}
	b.dueAgain()
	b.must(3, "deliver", "--once", "--fail-on", "retry")
	b.dueAgain()
	b.must(0, "deliver", "--once", "--fail-on", "dead")
}

// H24: big payloads.
func TestH24BigPayloads(t *testing.T) {
	b := newBench(t)
	defer b.check()
	k2, big := make(chan struct{}), make(chan struct{})
	gates := map[string]chan struct{}{"k2": k2, "big": big}
	hold := func(status int) testbed.Handler {
		return func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
			switch req.Key() {
			case "k2":
				req.Hold(k2)
			case "big":
				req.Hold(big)
			}
			w.WriteHeader(status)
		}
	}
	r := b.receiver("r", hold(http.StatusOK))
	early := testbed.Receiver(t, testbed.ReceiverOptions{LazyBody: true, Handler: hold(http.StatusRequestEntityTooLarge)})
	b.destination("early", early)
	want := b.bigPayloads()
	p := b.start("deliver", "--once")
	for len(gates) > 0 { // large ones go one by one, in either order
		var key string
		until(t, "a large one", func() bool {
			for key = range gates {
				if keys(r, early)[key] > 0 {
					return true
				}
			}
			return false
		})
		if peak := peakMemory(t, p.PID); peak > 200<<20 {
			t.Errorf("%d MiB of memory with %s in flight, want at most 200", peak>>20, key)
		}
		close(gates[key])
		delete(gates, key)
	}
	if res := p.Wait(); res.Code != 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	for _, req := range r.Requests() {
		if got := req.BodySHA256(); got != want[req.Key()] || req.ContentLength != int64(len(req.Body)) {
			t.Errorf("%s: body %s of %d bytes, Content-Length %d; want %s", req.Key(), got, len(req.Body), req.ContentLength, want[req.Key()])
		}
	}
	if r.Count() != 3 {
		t.Errorf("%d requests, want 3", r.Count())
	}
	if b.status("big", "state") != "dead" || b.status("big", "status") != "413" {
		t.Errorf("the refused one is %s with status %s", b.status("big", "state"), b.status("big", "status"))
	}
}

// bigPayloads puts in 0 B, 256 KiB and 10 MiB for r and 10 MiB for early, and returns the
// hashes of those for r.
func (b *theBench) bigPayloads() map[string]string {
	b.t.Helper()
	var lines bytes.Buffer
	want := map[string]string{}
	put := func(destination, key string, payload []byte) {
		sum := sha256.Sum256(payload)
		want[key] = hex.EncodeToString(sum[:])
		fmt.Fprintf(&lines, `{"destination":%q,"type":"case","subject":%q,"delivery_id":%q,"payload_base64":%q}`+"\n",
			destination, key, key, base64.StdEncoding.EncodeToString(payload))
	}
	for i, n := range []int{0, 256 << 10, 10 << 20} {
		put("r", fmt.Sprint("k", i), bytes.Repeat([]byte{byte('a' + i)}, n))
	}
	put("early", "big", bytes.Repeat([]byte("x"), 10<<20))
	cmd := b.cmd("enqueue", "--file", "-")
	cmd.Stdin = &lines
	if res := testbed.Run(b.t, cmd); res.Code != 0 {
		b.t.Fatalf("enqueue: exit %d: %s", res.Code, res.Stderr)
	}
	return want
}

// peakMemory is the most that a process has held until now, in bytes. (What wait reports
// begins with the memory of the process that started it.)
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no VmHWM in %s", text)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// H25: accepted, then broken off: the status line is the answer.
func TestH25AcceptedThenBrokenOff(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.receiver("none", testbed.Answer(http.StatusNoContent))
	b.receiver("empty", testbed.Answer(http.StatusOK))
	b.receiver("torn", func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		req.Answered(http.StatusOK)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
		_ = c.Close()
	})
	for _, name := range []string{"none", "empty", "torn"} {
		b.due(name, 1)
	}
	if s := b.once(); s.Delivered != 3 {
		t.Errorf("summary %+v, want three delivered", s)
	}
}

// H39: the database's clock is the authority; the signature's is the worker's own.
func TestH39DatabaseClockAhead(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.aheadBy(t, 600)
	b.configure(settings + "keys: {k: {current: {env: K}}}\n")
	b.env = []string{"K=whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}
	r := b.receiver("r", testbed.Answer(500))
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET signing_key = 'k'`)
	b.due("r", 1)
	if s := b.once(); s.Retried != 1 {
		t.Fatalf("summary %+v", s)
	}
	if w := b.waits(1)[0]; w < 30 || w > 36.01 {
		t.Errorf("due %.1f s after it was recorded by the database's clock, want 30 to 36", w)
	}
	req := r.Requests()[0]
	stamp, err := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
	if err != nil || math.Abs(float64(stamp-req.At.Unix())) > 5 {
		t.Errorf("webhook-timestamp %q at %d, want within 5 s", req.Header.Get("webhook-timestamp"), req.At.Unix())
	}
}
