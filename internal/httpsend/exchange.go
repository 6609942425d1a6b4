package httpsend

import (
	"context"
	"net/http"
	"time"
)

const (
	// atOnce is how much of a request a socket's buffer takes in any case (tcp(7)): to
	// write it waits for nobody.
	atOnce = 16 << 10
	// writeEnd is how long after the answer the last of a long request may still be on
	// its way into the socket.
	writeEnd = 50 * time.Millisecond
)

// exchange is one request on its way, and the answer to it.
type exchange struct {
	parent   context.Context
	start    time.Time
	deadline time.Time // of the request or of the parent, whichever is earlier
	limit    time.Duration
	proxied  bool   // the connection, where there is one, is made by a proxy
	heard    *trail // nil: nobody listens

	conn    *conn       // that carries the request; nil before there is one
	keep    func() bool // takes back what breaks off with the parent; false: too late
	writing chan bool   // whether all was written, where that goes on beside the reading; nil: it does not
	cut     bool        // not all was written, and nothing goes on
	whole   bool        // the answer was read to its end, and more may follow
	free    func(*conn) // takes the connection for another request
}

// newExchange starts the clock: the exchange is over after limit, or when parent is.
func newExchange(parent context.Context, start time.Time, limit time.Duration) *exchange {
	if limit <= 0 {
		limit = defaultTimeout
	}
	ex := &exchange{parent: parent, start: start, limit: limit, deadline: start.Add(limit)}
	if d, ok := parent.Deadline(); ok && d.Before(ex.deadline) {
		ex.deadline, ex.limit = d, d.Sub(start)
	}
	return ex
}

// hold has the socket obey the time limit and the parent from now on.
func (ex *exchange) hold(s *socket) error {
	if err := s.SetDeadline(ex.deadline); err != nil {
		return err
	}
	ex.keep = nil
	if ex.parent.Done() != nil {
		ex.keep = context.AfterFunc(ex.parent, s.breakOff)
	}
	return ex.parent.Err()
}

// letGo is the end of hold. It answers false when the parent has broken the socket off,
// or is about to.
func (ex *exchange) letGo() bool {
	kept := ex.keep == nil || ex.keep()
	ex.keep = nil
	return kept
}

// drop ends a connection without a word: to say one could take time.
func (ex *exchange) drop(s *socket) {
	ex.letGo()
	s.Close()
	if ex.writing != nil {
		<-ex.writing
		ex.writing = nil
	}
}

// close ends the exchange. A connection whose answer was read to the end goes on.
func (ex *exchange) close() {
	c := ex.conn
	if c == nil {
		return
	}
	if !ex.whole || !ex.written() || !ex.letGo() {
		ex.drop(c.socket)
		return
	}
	ex.free(c)
}

// written waits for the end of a long request for a moment, and says whether all of it
// was.
func (ex *exchange) written() bool {
	if ex.writing == nil {
		return !ex.cut
	}
	if by := time.Now().Add(writeEnd); by.Before(ex.deadline) {
		_ = ex.conn.SetWriteDeadline(by) // a closed one is not written to
	}
	all := <-ex.writing
	ex.writing = nil
	return all
}

func (ex *exchange) wrote() bool { return ex.conn != nil && ex.conn.socket.sent > 0 }

// post writes the request and reads the head of its answer. A receiver may answer, and
// close, before it has read all of it (413): then to write fails while the answer waits
// to be read. Or it answers and reads no further: what may not fit into the socket is
// written beside the reading. Before the first byte was written nothing is read, for no
// answer to it could be there.
func (ex *exchange) post(first, rest []byte) (*http.Response, error) {
	c := ex.conn
	c.socket.sent, c.left = 0, maxHead
	now := first[:min(len(first), atOnce)]
	_, err := c.Write(now)
	if !ex.wrote() {
		ex.heard.wrote(err)
		return nil, err
	}
	if first = first[len(now):]; err == nil && len(first)+len(rest) > 0 {
		ex.writing = make(chan bool, 1)
		go ex.writeLong(ex.writing, first, rest)
	} else {
		ex.heard.wrote(err)
		ex.cut = err != nil
	}
	resp, err := ex.readHead()
	if err != nil {
		ex.drop(c.socket) // from here on it is certain what was sent
	}
	return resp, err
}

func (ex *exchange) writeLong(all chan<- bool, first, rest []byte) {
	_, err := ex.conn.Write(first)
	if err == nil {
		_, err = ex.conn.Write(rest)
	}
	ex.heard.wrote(err)
	all <- err == nil
}

// readHead passes over answers that only inform, of which there may be as many as fit
// into the bound of all heads together.
func (ex *exchange) readHead() (*http.Response, error) {
	c := ex.conn
	for {
		resp, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			c.left = maxBody
			return resp, nil
		}
	}
}

// atMost shortens what is left of the time limit to d.
func (ex *exchange) atMost(d time.Duration) {
	if by := time.Now().Add(d); by.Before(ex.deadline) {
		_ = ex.conn.SetReadDeadline(by) // a closed one tells when it is read
	}
	if ex.parent.Err() != nil {
		ex.conn.socket.breakOff() // it may have been before
	}
}
