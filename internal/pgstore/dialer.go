package pgstore

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"time"
)

func openDB(to *target) *sql.DB { return sql.OpenDB(connector{target: to, plans: new(plans)}) }

// dialer makes connections on which no read or write waits longer than limit. A
// context's deadline does not end a call of the driver on a link that has gone
// silent; this does.
type dialer struct{ limit *atomic.Int64 } // nanoseconds

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var n net.Dialer
	conn, err := n.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &boundedConn{Conn: conn, limit: d.limit}, nil
}

// boundedConn puts a deadline on every read and write: limit from now, or the one
// the driver set, whichever comes first.
type boundedConn struct {
	net.Conn
	limit    *atomic.Int64 // nanoseconds
	explicit atomic.Pointer[time.Time]
}

func (c *boundedConn) deadline() time.Time {
	t := time.Now().Add(time.Duration(c.limit.Load()))
	if e := c.explicit.Load(); e != nil && e.Before(t) {
		return *e
	}
	return t
}

// Read waits for at most the limit.
func (c *boundedConn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write waits for at most the limit.
func (c *boundedConn) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(c.deadline()); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// SetDeadline keeps the driver's own deadline (it sets one while it connects).
func (c *boundedConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.explicit.Store(nil)
	} else {
		c.explicit.Store(&t)
	}
	return c.Conn.SetDeadline(t)
}
