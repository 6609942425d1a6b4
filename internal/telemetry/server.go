package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"example.com/whctl/internal/work"
)

const (
	readWithin  = 5 * time.Second
	writeWithin = 10 * time.Second
	idleWithin  = 2 * time.Minute // longer than the usual pause between two scrapes
	// endWithin is how long a scrape under way may hold a worker's end up.
	endWithin = time.Second
)

// Server serves /metrics and /healthz.
type Server struct {
	Address string // where it listens
	http    *http.Server
	ended   chan struct{}
}

// CheckAddress refuses, wrapping work.ErrUsage, what is no host:port to listen at.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q: want host:port, such as 127.0.0.1:9464", work.ErrUsage, address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%w: %q: want a port number from 0 (any that is free) to 65535", work.ErrUsage, address)
	}
	return nil
}

// Serve listens at address and serves until Close. Its error, which wraps work.ErrConfig,
// is that it cannot listen there.
func (m *Metrics) Serve(ctx context.Context, address string) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: metrics: %w", work.ErrConfig, err)
	}
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{m.registry, process}, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", m.health)
	s := &Server{Address: l.Addr().String(), ended: make(chan struct{}), http: &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readWithin,
		ReadTimeout:       readWithin,
		WriteTimeout:      writeWithin,
		IdleTimeout:       idleWithin,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // it quotes what clients sent
	}}
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(l) // ended by Close; a listener does not fail otherwise
	}()
	return s, nil
}

func (m *Metrics) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !m.Alive() {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "the loop has not turned for "+alive.String()+"\n")
		return
	}
	_, _ = io.WriteString(w, "ok\n") // a client that has left needs no answer
}

// Close ends it. What is under way may end, for a moment.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.ended
	return err
}
