package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// startLimit bounds Start when its context has no deadline of its own.
const startLimit = 60 * time.Second

// portTries is how often Start looks for another port when somebody else takes the
// one found free in the moment before the server binds it.
const portTries = 5

// errPortTaken is internal: Start answers it with the next port.
var errPortTaken = errors.New("the port was taken by another program")

// Options say how the server is to run. The zero value is a fast server that does
// not survive a power cut.
type Options struct {
	Dir      string            // the folder to make the server's own folder in; "" is the system's temporary folder
	Durable  bool              // fsync and full page writes as in production; for benchmarks
	Settings map[string]string // further lines of postgresql.conf; these win
	Env      []string          // further NAME=value for the server alone, such as LD_PRELOAD
}

// Server is a running Postgres.
type Server struct {
	folder   *folder
	port     int
	password string
	process  *process
	relaunch func(ctx context.Context) error // as it was started
	stopOnce sync.Once
	stopErr  error
}

// Start makes a new cluster and starts its server. It returns when the server
// answers, and never later than the context's end, which matters to Start only: a
// started server runs until Stop, or until this process ends.
func Start(ctx context.Context, o Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	own, err := serverAccount()
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	f, err := newFolder(o.Dir, own)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s := &Server{folder: f}
	if err := s.bringUp(ctx, bin, own, o); err != nil {
		// The first error is the one to tell; a folder left behind is found by the next Start.
		_ = f.remove()
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	return s, nil
}

func (s *Server) bringUp(ctx context.Context, bin string, own *account, o Options) error {
	if err := initCluster(ctx, bin, own, s.folder, o); err != nil {
		return err
	}
	for try := 1; ; try++ {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		s.port = port
		err = s.launch(ctx, bin, own, o.Env)
		if err == nil {
			break
		}
		if !errors.Is(err, errPortTaken) || try == portTries {
			return err
		}
	}
	s.relaunch = func(ctx context.Context) error { return s.launch(ctx, bin, own, o.Env) }
	password, err := s.setPassword(ctx)
	if err != nil {
		s.process.stop()
		return err
	}
	s.password = password
	return nil
}

// URL is the address of a database over TCP. It carries the superuser's password,
// made up for this server; other roles need none.
func (s *Server) URL(dbname string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + dbname,
		RawQuery: "sslmode=disable",
	}).String()
}

// SocketURL is the address of a database over the Unix socket, which only the
// server's account and root can reach; no role needs a password there.
func (s *Server) SocketURL(dbname string) string {
	q := url.Values{
		"host": {s.folder.socket}, "port": {strconv.Itoa(s.port)},
		"user": {superuser}, "sslmode": {"disable"},
	}
	return (&url.URL{Scheme: "postgres", Path: "/" + dbname, RawQuery: q.Encode()}).String()
}

// Halt ends the server as an operator's fast shutdown does, and keeps its data.
func (s *Server) Halt() { s.process.stop() }

// Resume starts the server again after Halt, at the same address. The start fails where
// another program has taken the port meanwhile.
func (s *Server) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.relaunch(ctx); err != nil {
		return fmt.Errorf("start postgres again: %w", err)
	}
	return nil
}

// PID is the process id of the server.
func (s *Server) PID() int { return s.process.pid }

// Log is the path of the server's log.
func (s *Server) Log() string { return s.folder.log() }

// Stop ends the server and removes its folder. It is harmless to call it again, and
// no error that the server has ended by itself.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		s.process.stop()
		if err := s.folder.remove(); err != nil {
			s.stopErr = fmt.Errorf("stop postgres: %w", err)
		}
	})
	return s.stopErr
}

// freePort finds a TCP port that nobody listens on at this moment.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port // what a TCP listener has
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}
