package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/whctl/internal/checker"
)

// Request is one request that a receiver got. What may change after its arrival has a
// method.
type Request struct {
	N             int // in the order of arrival, from 1
	Conn          int // the connection it came on, from 1
	At            time.Time
	Method        string
	Host          string
	Path          string
	Header        http.Header
	ContentLength int64 // -1: not said
	Body          []byte
	whole         bool // Body is all of it

	journal  *journal
	left     <-chan struct{} // closed when the client or the receiver is gone
	status   int             // guarded by journal.mu, as is all below
	finished time.Time
}

// Status is what was answered while the client was there, 0 for nothing yet.
func (r *Request) Status() int {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	return r.status
}

// Finished is when the answer was about to be sent, the client left, or the handler
// gave up; zero while the request is open.
func (r *Request) Finished() time.Time {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	return r.finished
}

// Answered says that a status is about to be written past the ResponseWriter. To a
// client that has left nothing is answered.
func (r *Request) Answered(status int) { r.answer(status) }

// answer is Answered, and tells whether the answer may be written.
func (r *Request) answer(status int) bool {
	select {
	case <-r.left:
		status = 0
	default:
	}
	return r.journal.finish(r, status) != 0
}

// Hold waits until release is closed or answers, and is false when the client or the
// receiver was gone before.
func (r *Request) Hold(release <-chan struct{}) bool {
	select {
	case <-release:
		return true
	case <-r.left:
		return false
	}
}

// BodySHA256 is the hash of the whole body in hexadecimal digits, "" when it did not
// arrive whole or was not read.
func (r *Request) BodySHA256() string {
	if !r.whole {
		return ""
	}
	sum := sha256.Sum256(r.Body)
	return hex.EncodeToString(sum[:])
}

// Key is the idempotency key: the delivery id.
func (r *Request) Key() string { return r.Header.Get("Idempotency-Key") }

// seen is the request as the checker wants it.
func (r *Request) seen() checker.Seen {
	generation, _ := strconv.Atoi(r.Header.Get("X-Webhook-Generation")) // 0 is no attempt's
	attempt, _ := strconv.Atoi(r.Header.Get("X-Webhook-Attempt"))
	return checker.Seen{
		DeliveryID: r.Key(), AttemptID: r.Header.Get("X-Webhook-Attempt-Id"),
		Generation: generation, Attempt: attempt, BodySHA256: r.BodySHA256(),
		Status: r.Status(), Started: r.At, Finished: r.Finished(),
	}
}

// journal is the ordered log of a receiver.
type journal struct {
	mu       sync.Mutex
	requests []*Request
	changed  chan struct{} // closed and replaced at each change
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

func (j *journal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) add(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.journal, r.N = j, len(j.requests)+1
	j.requests = append(j.requests, r)
	j.wake()
}

// finish sets the answer, once, and returns the one that stands; status 0 is none.
func (j *journal) finish(r *Request, status int) int {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.finished.IsZero() {
		r.status, r.finished = status, now
		j.wake()
	}
	return r.status
}

// look is the requests until now, and a channel that is closed when that has changed.
func (j *journal) look() ([]*Request, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*Request(nil), j.requests...), j.changed
}

// String is the log for people, a line for each request.
func (j *journal) String() string {
	requests, _ := j.look()
	if len(requests) == 0 {
		return "no request"
	}
	var b strings.Builder
	for _, r := range requests {
		answer := "open"
		if !r.Finished().IsZero() {
			answer = strconv.Itoa(r.Status())
		}
		fmt.Fprintf(&b, "%3d. %s connection %d %s %s key %q generation %q attempt %q, %d bytes: %s\n", r.N, r.At.Format("05.000"), r.Conn,
			r.Method, r.Path, r.Key(), r.Header.Get("X-Webhook-Generation"), r.Header.Get("X-Webhook-Attempt"), len(r.Body), answer)
	}
	return b.String()
}
