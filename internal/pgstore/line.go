package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"net"
	"os"
	"time"
)

// lineDialer makes lines. They are closed when ctx ends, whatever waits on them.
type lineDialer struct {
	dialer
	ctx  context.Context //nolint:containedctx // the driver's is only about the call that it dials in
	made func(*line)
}

func (d lineDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(d.ctx, network, address)
}

func (d lineDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

func (d lineDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &line{boundedConn: conn.(*boundedConn), answer: math.MaxInt} // what our dialer makes
	c.release = context.AfterFunc(d.ctx, func() { _ = c.boundedConn.Close() })
	d.made(c)
	return c, nil
}

// line is a connection on which one may wait for bytes to arrive, for as long as one
// likes, without reading them: the driver has no such wait, and under TLS the bytes say
// nothing anyway. All but Close belongs to one goroutine.
type line struct {
	*boundedConn
	first   [1]byte // what await has taken ahead
	held    bool    // there is such a byte
	got     int     // bytes read
	answer  int     // bytes of the shortest answer to an empty query
	release func() bool
}

// await waits until something arrives, but not longer than d. Nothing is no error.
func (c *line) await(d time.Duration) error {
	if c.held {
		return nil
	}
	if err := c.Conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	n, err := c.Conn.Read(c.first[:])
	c.held = n > 0
	if errors.Is(err, os.ErrDeadlineExceeded) || c.held {
		return nil
	}
	return err
}

// ask makes the driver read what has arrived: it looks at notifications only on the way
// to an answer. More says that something else came with the answer. It may have come
// behind it, and then lies unread where await does not see it.
func (c *line) ask(conn driver.ExecerContext) (more bool, err error) {
	before := c.got
	if _, err := conn.ExecContext(context.Background(), "", nil); err != nil {
		return false, err
	}
	n := c.got - before
	c.answer = min(c.answer, n)
	return n > c.answer, nil
}

// Read begins with what await has taken ahead.
func (c *line) Read(b []byte) (n int, err error) {
	if c.held && len(b) > 0 {
		c.held = false
		n = copy(b, c.first[:])
	} else {
		n, err = c.boundedConn.Read(b)
	}
	c.got += n
	return n, err
}

// Close lets go of the context, too.
func (c *line) Close() error {
	c.release()
	return c.boundedConn.Close()
}
