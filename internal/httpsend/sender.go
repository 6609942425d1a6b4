package httpsend

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

// Request is one attempt of one delivery.
type Request struct {
	URL            string
	Headers        map[string]string // the destination's own, with their values
	Keys           []Key             // the current one first; none: no signature
	Signature      work.Signature    // how they sign
	DeliveryID     string
	AttemptID      uuid.UUID
	Attempt        int
	Generation     int
	RedriveID      string // "" where there was no redrive
	Body           []byte // not written to; nor read, once Send has returned
	Timeout        time.Duration
	SuccessBodyMax int // bytes of a 2xx answer's body kept as evidence
}

// Send makes one POST, or none when it could not be sent, and says what came of it.
// It ends within the request's time limit or, when that is earlier, soon after ctx does.
//
// Class Lost is only for a ctx that was cancelled before there was an answer; its
// deadline is a Timeout.
func (s *Sender) Send(ctx context.Context, r Request) work.Outcome { return s.send(ctx, r, nil) }

// send also tells what it does, where anybody listens.
func (s *Sender) send(ctx context.Context, r Request, heard *trail) work.Outcome {
	start := time.Now()
	v := s.targetOf(r.URL)
	if v.refusal != nil {
		return v.refusal.outcome()
	}
	header, refused := s.header(r, v.target)
	if refused != nil {
		return refused.outcome()
	}
	ex := newExchange(ctx, start, r.Timeout)
	ex.heard, ex.proxied, ex.free = heard, s.guard.proxy != nil, s.idle.put
	message := messages.Get().(*[]byte)
	defer messages.Put(message)
	defer ex.close() // before, for until then it may be written
	heard.handOver()
	resp, err := s.roundTrip(ex, v.target, message, header, r.Body) //nolint:bodyclose // to close it would read it; the connection is closed
	latency := time.Since(start)
	var o work.Outcome
	switch {
	case err != nil:
		o = ex.failure(err, v.target)
	case ex.proxied && resp.StatusCode == http.StatusProxyAuthRequired && v.target.url.Scheme == "http":
		// Over http a proxy's answer looks like the receiver's. This one cannot be the
		// receiver's (RFC 9110, section 15.5.8); a proxy's other refusals cannot be told.
		o = work.Outcome{Class: work.Connect, Message: errProxy.Error()} // nothing of its body is wanted
	default:
		o = s.answer(ex, resp, r, v.target)
	}
	o.Latency = latency
	o.Message = clean(o.Message, maxMessage, false)
	return o
}

// messages holds the beginnings of requests: the head and, where both are small, the
// body, so that they are written at once.
var messages pool = &sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// pool is a sync.Pool; a test looks at what is given back.
type pool interface {
	Get() any
	Put(message any)
}

// roundTrip sends the request and reads the head of its answer. Idle connections that
// turn out to have ended are left for the next one as long as nothing of the request
// was written; from the first byte on there is no other try.
func (s *Sender) roundTrip(ex *exchange, t *target, buf *[]byte, header headerSet, body []byte) (*http.Response, error) {
	*buf = header.appendHead((*buf)[:0], t)
	now := body[:min(len(body), max(atOnce-len(*buf), 0))]
	*buf = append(*buf, now...)
	rest := body[len(now):]
	for c := s.idle.get(t.key); c != nil; c = s.idle.get(t.key) {
		if err := ex.hold(c.socket); err == nil && c.quiet() {
			ex.conn = c
			ex.heard.gotConn(true)
			resp, err := ex.post(*buf, rest)
			if err == nil {
				return resp, nil
			}
			if ex.wrote() {
				return nil, err
			}
			ex.conn = nil
		}
		ex.drop(c.socket)
		if err := ex.parent.Err(); err != nil {
			return nil, err
		}
	}
	if err := s.connect(ex, t); err != nil {
		return nil, err
	}
	return ex.post(*buf, rest)
}
