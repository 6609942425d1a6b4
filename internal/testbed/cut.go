package testbed

import (
	"bytes"
	"context"
)

// Cut is a break of the link that waits for its moment. It happens once, to the one
// connection that sent what it waits for; all others go on.
type Cut struct {
	// Done is closed when it has happened: for CutAfterAnswer the server has carried
	// out and answered the request, the answer is thrown away and the connection is
	// closed.
	Done <-chan struct{}

	done   chan struct{}
	match  func([]byte) bool
	before bool
}

// CutAfterAnswer passes the first request for which match is true on to the server,
// waits until the server has answered it to the end, and closes the connection without
// passing the answer. match sees the bytes of one request: a simple query, or the
// messages of an extended one up to its Sync. It is called by one goroutine at a time,
// in the order in which requests come.
func (l *Link) CutAfterAnswer(match func(clientBytes []byte) bool) *Cut { return l.arm(match, false) }

// CutBefore closes the connection instead of passing on the first request for which
// match is true: the server never sees it.
func (l *Link) CutBefore(match func(clientBytes []byte) bool) *Cut { return l.arm(match, true) }

// Says matches requests that hold text, such as COMMIT.
func Says(text string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(text)) }
}

func (l *Link) arm(match func([]byte) bool, before bool) *Cut {
	done := make(chan struct{})
	c := &Cut{Done: done, done: done, match: match, before: before}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts = append(l.cuts, c)
	return c
}

// matching takes the first armed cut that matches the request out of the list; nil if
// there is none.
func (l *Link) matching(request []byte) *Cut {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.cuts {
		if c.match(request) {
			l.cuts = append(l.cuts[:i:i], l.cuts[i+1:]...)
			return c
		}
	}
	return nil
}

// toServer passes whole requests on until the client is gone or cut off.
func (c *line) toServer() {
	for {
		request, err := c.request()
		if err != nil || !c.passes() {
			return
		}
		cut := c.link.matching(request)
		if cut != nil && cut.before {
			c.close()
			close(cut.done)
			return
		}
		if cut != nil {
			c.mu.Lock()
			c.cut = cut
			c.mu.Unlock()
		}
		if _, err := c.server.Write(request); err != nil {
			return
		}
		if cut != nil {
			<-c.gone // toClient closes after the answer
			return
		}
	}
}

// request reads the messages up to one that the server answers.
func (c *line) request() ([]byte, error) {
	var request []byte
	for {
		message, err := readMessage(c.client)
		if err != nil {
			return nil, err
		}
		request = append(request, message...)
		if endsRequest(message) {
			return request, nil
		}
	}
}

// toClient passes the server's messages on, until the server is gone or the answer
// that is to be thrown away has come whole.
func (c *line) toClient() {
	for {
		message, err := readMessage(c.server)
		if err != nil {
			return
		}
		c.mu.Lock()
		cut := c.cut
		c.mu.Unlock()
		if cut != nil {
			if endsAnswer(message) {
				c.close()
				close(cut.done)
				return
			}
			continue
		}
		if !c.passes() {
			return
		}
		if _, err := c.client.Write(message); err != nil {
			return
		}
	}
}

// context ends with the connection, or with the test.
func (l *Link) context(c *line) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	l.wg.Go(func() {
		defer cancel()
		select {
		case <-c.gone:
		case <-l.closed:
		}
	})
	return ctx
}
