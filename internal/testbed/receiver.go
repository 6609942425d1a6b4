package testbed

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/checker"
)

// Handler answers one request. It may wait on channels (best by Request.Hold), since
// each request has a goroutine of its own.
type Handler func(w http.ResponseWriter, r *http.Request, req *Request)

// ReceiverOptions say what a receiver is to be. The zero value is HTTPS on 127.0.0.1
// that answers 200.
type ReceiverOptions struct {
	Host        string           // 127.0.0.1 unless given; 127.0.0.2 and .3 work too
	Plain       bool             // http, not https
	Certificate *tls.Certificate // instead of a good one
	Handler     Handler
	LazyBody    bool // the handler reads the body, or does not
}

// Endpoint is a receiver with a log.
type Endpoint struct {
	URL     string // such as https://127.0.0.1:4711/hook
	Address string // such as 127.0.0.1:4711

	t        testing.TB
	listener *countingListener
	journal  *journal
	lazy     bool
	done     chan struct{} // closed when it is shut
	shut     func()

	mu      sync.Mutex
	handler Handler
}

// Receiver starts a receiver, which ends with the test.
func Receiver(t testing.TB, o ReceiverOptions) *Endpoint {
	t.Helper()
	e, l := newEndpoint(t, o)
	server := &http.Server{ // clients here may be as slow as they like
		Handler:  http.HandlerFunc(e.serve),
		ErrorLog: log.New(io.Discard, "", 0), // broken handshakes are what some tests are about
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, connID(c))
		},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("receiver %s: %v", e.Address, err)
		}
	}()
	e.closer(func() {
		_ = server.Close() // first, so that nobody gets an answer from a handler that is woken; errors are the loop's to tell
		close(e.done)
		<-ended
	})
	return e
}

func newEndpoint(t testing.TB, o ReceiverOptions) (*Endpoint, net.Listener) {
	t.Helper()
	counting := &countingListener{Listener: listen(t, o.Host), changed: make(chan struct{})}
	e := &Endpoint{
		Address: counting.Addr().String(), t: t, listener: counting, journal: newJournal(),
		lazy: o.LazyBody, done: make(chan struct{}), handler: o.Handler,
	}
	if e.handler == nil {
		e.handler = Answer(http.StatusOK)
	}
	if o.Plain {
		e.URL = "http://" + e.Address + "/hook"
		return e, counting
	}
	e.URL = "https://" + e.Address + "/hook"
	if o.Certificate == nil {
		c := Certificate(t, CertificateOptions{})
		o.Certificate = &c
	}
	return e, tls.NewListener(counting, &tls.Config{
		Certificates: []tls.Certificate{*o.Certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
}

// closer says how the receiver is shut; f closes done.
func (e *Endpoint) closer(f func()) {
	e.shut = sync.OnceFunc(f)
	e.t.Cleanup(e.shut)
}

// Close shuts the receiver: nothing listens at its address any more, open connections
// break.
func (e *Endpoint) Close() { e.shut() }

// Handle changes what the next requests are answered.
func (e *Endpoint) Handle(h Handler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handler = h
}

type connKey struct{}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(int)
	left, leave := context.WithCancel(r.Context())
	defer leave()
	req := &Request{
		Conn: conn, At: time.Now(), Method: r.Method, Host: r.Host, Path: r.URL.Path, Header: r.Header.Clone(),
		ContentLength: r.ContentLength, left: left.Done(),
	}
	if !e.lazy {
		var err error
		req.Body, err = io.ReadAll(r.Body)
		req.whole = err == nil
	}
	e.journal.add(req)
	go func() { // the end of the test comes to those who hold as well
		select {
		case <-e.done:
			leave()
		case <-left.Done():
		}
	}()
	defer e.journal.finish(req, 0) // a handler that broke off, or has hijacked the connection
	// Whoever leaves is finished then, though the handler may go on. net/http notices it
	// when the body has been read.
	defer context.AfterFunc(r.Context(), func() { e.journal.finish(req, 0) })()
	e.mu.Lock()
	h := e.handler
	e.mu.Unlock()
	rec := &recorder{ResponseWriter: w, req: req}
	h(rec, r, req)
	rec.close()
}

// recorder notes the status before the client can see it. To a client that has left it
// writes nothing: one that says farewell under TLS reads on for a moment, and would find
// the answer of a handler that its farewell has woken.
type recorder struct {
	http.ResponseWriter
	req      *Request
	hijacked bool
}

var errLeft = errors.New("testbed: the client has left")

func (w *recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if !w.req.answer(status) {
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if !w.req.answer(http.StatusOK) {
		return 0, errLeft
	}
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written until now.
func (w *recorder) Flush() {
	if w.req.answer(http.StatusOK) {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // a client that left is on record
	}
}

// Hijack hands the connection out; the handler tells by Request.Answered what it writes.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.hijacked = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// close notes the 200 that net/http writes when a handler wrote nothing, or keeps it
// from writing.
func (w *recorder) close() {
	if !w.hijacked && !w.req.answer(http.StatusOK) {
		panic(http.ErrAbortHandler)
	}
}

// Answer is a handler that answers all with status.
func Answer(status int) Handler { return Script(status) }

// Script is a handler that answers the requests one after the other with these
// statuses; the last one goes on for ever.
func Script(statuses ...int) Handler {
	var mu sync.Mutex
	next := 0
	return func(w http.ResponseWriter, _ *http.Request, _ *Request) {
		mu.Lock()
		status := statuses[min(next, len(statuses)-1)]
		next++
		mu.Unlock()
		w.WriteHeader(status)
	}
}

// Requests is the log until now, in the order of arrival.
func (e *Endpoint) Requests() []*Request {
	requests, _ := e.journal.look()
	return requests
}

// Count is how many requests arrived until now.
func (e *Endpoint) Count() int { return len(e.Requests()) }

// Seen is the log of POSTs as the checker wants it.
func (e *Endpoint) Seen() []checker.Seen {
	var seen []checker.Seen
	for _, r := range e.Requests() {
		if r.Method == http.MethodPost {
			seen = append(seen, r.seen())
		}
	}
	return seen
}

// Log is the log for people.
func (e *Endpoint) Log() string { return e.journal.String() }

// Wait waits until n requests have arrived in all, and returns them. It fails the test
// when that takes too long.
func (e *Endpoint) Wait(n int) []*Request {
	e.t.Helper()
	return e.WaitFor("requests to arrive", func(rs []*Request) bool { return len(rs) >= n })
}

// WaitAnswered waits until n requests have been answered with a status in all.
func (e *Endpoint) WaitAnswered(n int) []*Request {
	e.t.Helper()
	return e.WaitFor("requests to be answered", func(rs []*Request) bool {
		answered := 0
		for _, r := range rs {
			if r.Status() != 0 {
				answered++
			}
		}
		return answered >= n
	})
}

// WaitFor waits until the log is such that ok, and fails the test, naming what, when
// that takes too long.
func (e *Endpoint) WaitFor(what string, ok func([]*Request) bool) []*Request {
	e.t.Helper()
	timer := time.NewTimer(limit(e.t))
	defer timer.Stop()
	for {
		requests, changed := e.journal.look()
		if ok(requests) {
			return requests
		}
		select {
		case <-changed:
		case <-timer.C:
			e.t.Fatalf("waited too long for %s at %s; it saw:\n%s", what, e.Address, e.Log())
		}
	}
}
