package httpsend

import (
	"bytes"
	"context"
	"io"
	"net/http"
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
	Body           []byte // not written to, and read until the connection is done with it
	Timeout        time.Duration
	SuccessBodyMax int // bytes of a 2xx answer's body kept as evidence
}

// Send makes one POST, or none when it could not be sent, and says what came of it.
// It ends within the request's time limit or, when that is earlier, soon after ctx does.
//
// Class Lost is only for a ctx that was cancelled before there was an answer; its
// deadline is a Timeout.
func (s *Sender) Send(ctx context.Context, r Request) work.Outcome {
	start := time.Now()
	v := s.targetOf(r.URL)
	if v.refusal != nil {
		return v.refusal.outcome()
	}
	header, refused := s.header(r)
	if refused != nil {
		return refused.outcome()
	}
	ex := newExchange(ctx, start, r.Timeout)
	defer ex.close()
	ex.proxied = s.guard.proxy != nil
	resp, err := s.roundTrip(ex, v.target, header, r.Body)
	latency := time.Since(start)
	var o work.Outcome
	switch {
	case err != nil:
		o = ex.failure(err, v.target)
	case ex.proxied && resp.StatusCode == http.StatusProxyAuthRequired && v.target.url.Scheme == "http":
		// Over http a proxy's answer looks like the receiver's. This one cannot be the
		// receiver's (RFC 9110, section 15.5.8); a proxy's other refusals cannot be told.
		_ = resp.Body.Close() // nothing of it is wanted
		o = work.Outcome{Class: work.Connect, Message: errProxy.Error()}
	default:
		o = s.answer(ex, resp, r, v.target)
	}
	o.Latency = latency
	o.Message = clean(o.Message, maxMessage, false)
	return o
}

// roundTrip sends the request. Idle connections that turn out to have ended are left
// for the next one as long as nothing of the request was written.
func (s *Sender) roundTrip(ex *exchange, t *target, header http.Header, body []byte) (*http.Response, error) {
	for tries := 0; ; tries++ {
		req := (&http.Request{
			Method:        http.MethodPost,
			URL:           t.url,
			Header:        header,
			ContentLength: int64(len(body)),
		}).WithContext(ex.ctx)
		if len(body) > 0 {
			// GetBody stays nil: a body that cannot be had again is not sent again.
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		resp, err := s.transport.RoundTrip(req)
		if err == nil {
			return resp, nil
		}
		if ex.ctx.Err() != nil || ex.conn == nil || !ex.reused || ex.wrote() || tries > s.places {
			return nil, err
		}
	}
}
