package pgstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

// socketFolder is where psql looks for the server's socket, as Debian builds it. The
// default of PostgreSQL's own builds, /tmp, is not looked into: anybody may put a socket
// there while the server is down.
const socketFolder = "/var/run/postgresql"

// target is the database as each new connection looks for it. Where no host is named that
// is by the server's Unix socket, as psql does it. Until one has been seen, localhost is
// tried besides: there may be none, and a server that is down makes its own later.
type target struct {
	cfg      pq.Config
	named    *pq.Connector
	bySocket *pq.Connector // nil where a host is named
	local    pq.Config     // of bySocket
	seen     atomic.Bool   // the socket was there
}

// newTarget fails, wrapping work.ErrConfig, where the URL cannot be used.
func newTarget(o Options) (*target, error) {
	cfg, err := driverConfig(o.URL)
	if err != nil {
		return nil, err
	}
	t := &target{cfg: cfg}
	if t.named, err = newConnector(cfg); err != nil || hostGiven(o.URL) || cfg.Service != "" {
		return t, err
	}
	t.local = cfg
	t.local.Host, t.local.SSLMode = o.SocketFolder, pq.SSLModeDisable
	if t.local.Host == "" {
		t.local.Host = socketFolder
	}
	t.bySocket, err = newConnector(t.local)
	return t, err
}

func newConnector(cfg pq.Config) (*pq.Connector, error) {
	c, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: database: %w", work.ErrConfig, redacted(err, cfg.Password))
	}
	return c, nil
}

// dialBy makes every connection by way of d.
func (t *target) dialBy(d pq.Dialer) {
	t.named.Dialer(d)
	if t.bySocket != nil {
		t.bySocket.Dialer(d)
	}
}

// Connect implements driver.Connector.
func (t *target) Connect(ctx context.Context) (driver.Conn, error) {
	if t.hasSocket() {
		return t.bySocket.Connect(ctx)
	}
	return t.named.Connect(ctx)
}

// Driver implements driver.Connector.
func (t *target) Driver() driver.Driver { return t.named.Driver() }

func (t *target) hasSocket() bool {
	if t.bySocket == nil || t.seen.Load() {
		return t.bySocket != nil
	}
	_, err := os.Stat(filepath.Join(t.local.Host, ".s.PGSQL."+strconv.Itoa(int(t.local.Port))))
	if err == nil {
		t.seen.Store(true)
	}
	return err == nil
}

// String names the database for errors, without credentials.
func (t *target) String() string {
	switch {
	case t.bySocket == nil:
		return where(t.cfg)
	case t.hasSocket():
		return where(t.local)
	}
	return fmt.Sprintf("%s (%s has no socket for port %d)", where(t.cfg), t.local.Host, t.local.Port)
}

func where(cfg pq.Config) string {
	host, database := cfg.Host, cfg.Database
	if database == "" {
		database = cfg.User // the server's default
	}
	if !filepath.IsAbs(host) {
		host = net.JoinHostPort(host, strconv.Itoa(int(cfg.Port)))
	}
	return fmt.Sprintf("database %q at %s as %q", database, host, cfg.User)
}
