package httpsend

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"example.com/whctl/internal/work"
)

const (
	// maxDrain is how much of an answer's body is read, so that the connection can be
	// used again; a longer body costs the connection.
	maxDrain = 32 << 10
	// maxBody bounds what comes of a body on the connection, in chunks however small.
	maxBody = 8 * maxDrain
	// maxKept bounds what a policy may ask to keep of a 2xx answer, in bytes.
	maxKept = 32 << 10
	// overlap is read beyond what is kept, for what begins there is taken out too.
	overlap = 2 << 10
	// bodyTime is how long the body may take once the status line is there. It is
	// evidence only: the place is worth more.
	bodyTime = time.Second
)

// answer makes an outcome of a status line. Whatever happens to the body changes at
// most the message.
func (s *Sender) answer(ex *exchange, resp *http.Response, r Request, t *target) work.Outcome {
	o := work.Outcome{Class: work.ClassOfStatus(resp.StatusCode), Status: resp.StatusCode}
	keep := min(max(r.SuccessBodyMax, 0), maxKept)
	if o.Class != work.OK {
		keep = maxExcerpt
		o.Message = statusMessage(resp, r, t)
		o.RetryAfter = retryAfter(resp.Header, s.now)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return o // nothing of what follows is an answer
	}
	if resp.Body != http.NoBody {
		ex.atMost(bodyTime)
	}
	// The body is not closed, which would be to read all of it: the connection is.
	e := readEvidence(resp, keep)
	ex.whole = e.ended && !resp.Close && !bodyToCome(resp)
	if e.err != nil {
		o.Message = joinNote(o.Message, "the answer's body broke off")
	}
	if len(e.text) > 0 {
		s.redactEvidence(&e)
		text := newScrubber(r, t).scrub(string(e.text), e.more)
		o.Excerpt = clean(text, keep, e.more)
	}
	return o
}

// bodyToCome says that a body is announced where none is allowed. Some receivers send it
// all the same, and it would be read as the next answer.
func bodyToCome(resp *http.Response) bool {
	length := resp.Header.Get("Content-Length")
	return resp.Body == http.NoBody && (length != "" && length != "0" || len(resp.TransferEncoding) > 0)
}

// redactEvidence comes before all else that is done to the text, while it still is the
// JSON that the rules are about.
func (s *Sender) redactEvidence(e *evidence) {
	if len(s.redact) == 0 {
		return
	}
	text, cut := s.redact.Apply(e.text)
	e.text, e.more = text, e.more || cut
}

// evidence is the beginning of an answer's body.
type evidence struct {
	text  []byte
	more  bool  // there was more, or it is not known
	ended bool  // it was read to its end
	err   error // why the rest could not be read
}

// readEvidence reads enough to keep that many bytes after scrubbing, and goes on to the end
// of the body if that is near.
func readEvidence(resp *http.Response, keep int) evidence {
	buf := buffers.Get().(*[4096]byte)
	defer buffers.Put(buf)
	want := 0
	if keep > 0 {
		want = keep + overlap
	}
	enough := max(want, maxDrain)
	if resp.ContentLength > int64(enough) {
		enough = want // its end will not be reached
	}
	var e evidence
	for read := 0; ; {
		if read > enough {
			e.more = true
			return e
		}
		n, err := resp.Body.Read(buf[:min(len(buf), enough+1-read)]) // one more: to know whether this was its end
		read += n
		part := buf[:min(n, want-len(e.text))]
		e.text = append(e.text, part...)
		e.more = e.more || len(part) < n
		switch {
		case errors.Is(err, io.EOF):
			e.ended = true
			return e
		case err != nil:
			e.err, e.more = err, true
			return e
		}
	}
}

var buffers = sync.Pool{New: func() any { return new([4096]byte) }}

// statusMessage says what the status means. The receiver's own reason phrase is not
// repeated: anything may stand in it.
func statusMessage(resp *http.Response, r Request, t *target) string {
	text := fmt.Sprintf("%03d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch work.ClassOfStatus(resp.StatusCode) {
	case work.Redirect:
		text = joinNote(text, "redirects are not followed")
		if host := leadsTo(resp.Header.Get("Location"), r, t); host != "" {
			text += "; this one leads to " + host
		}
	case work.Protocol:
		text = joinNote(text, "no final status that HTTP knows")
	}
	return text
}

// leadsTo is the host of a redirect, or nothing where that quotes the request: a whole
// name is shown or none, for a part of it would mislead.
func leadsTo(location string, r Request, t *target) string {
	to, err := url.Parse(location)
	if err != nil {
		return ""
	}
	host, why := mapHost(to.Hostname())
	switch {
	case why != "":
		return ""
	case host == t.host:
		return host // known from the destination
	}
	if s := newScrubber(r, t); s.holds(to.Hostname()) || s.holds(host) {
		return ""
	}
	return host
}

func joinNote(text, note string) string {
	if text == "" {
		return note
	}
	return text + ": " + note
}
