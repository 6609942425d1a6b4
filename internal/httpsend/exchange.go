package httpsend

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"time"
)

var (
	errTimeout = errors.New("time limit of the request")
	errResend  = errors.New("a second POST for one attempt")
)

type exchangeKey struct{}

// exchange is one request on its way, and the answer to it.
type exchange struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer // cancels with errTimeout
	deadline time.Time
	start    time.Time
	limit    time.Duration
	conn     *watchedConn // that carries the request; nil before there is one
	reused   bool
	proxied  bool // the connection, where there is one, is made by a proxy
}

// newExchange starts the clock: the exchange is over after limit, or when parent is.
func newExchange(parent context.Context, start time.Time, limit time.Duration) *exchange {
	if limit <= 0 {
		limit = defaultTimeout
	}
	ex := &exchange{start: start, limit: limit, deadline: start.Add(limit)}
	if d, ok := parent.Deadline(); ok && d.Before(ex.deadline) {
		ex.deadline, ex.limit = d, d.Sub(start)
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, exchangeKey{}, ex))
	ex.cancel = cancel
	ex.timer = time.AfterFunc(limit, func() { cancel(errTimeout) })
	ex.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: ex.gotConn})
	return ex
}

// close ends the exchange. A connection that was read to the end stays open.
func (ex *exchange) close() {
	ex.timer.Stop()
	if ex.conn != nil {
		ex.conn.release(ex)
	}
	ex.cancel(nil)
}

// atMost shortens what is left of the time limit to d.
func (ex *exchange) atMost(d time.Duration) {
	ex.timer.Reset(min(d, time.Until(ex.deadline)))
}

// gotConn is called each time net/http has found a connection for the request, before
// anything is written. A second time after something was written means that it is
// about to send the request again by itself, which it does on a broken connection when
// there is an Idempotency-Key and the body is empty (one that isn't has no GetBody, and
// is not sent twice for want of it): that would be an attempt nobody counted.
func (ex *exchange) gotConn(info httptrace.GotConnInfo) {
	conn := watched(info.Conn)
	if conn == nil {
		ex.cancel(errors.New("a connection that nobody watches"))
		return
	}
	if ex.wrote() {
		conn.refuse()
		ex.cancel(errResend)
		return
	}
	ex.conn, ex.reused = conn, info.Reused
	conn.begin(ex)
}

func (ex *exchange) wrote() bool {
	if ex.conn == nil {
		return false
	}
	sent, _ := ex.conn.passed(ex)
	return sent > 0
}

// watched finds the socket below TLS, twice where there is a proxy with TLS.
func watched(conn net.Conn) *watchedConn {
	for {
		switch c := conn.(type) {
		case *watchedConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
