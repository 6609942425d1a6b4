package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// SlowAnswer is how long the receiver takes below /slow/.
const SlowAnswer = 2 * time.Second

// Seen is what the receiver tells at /seen: the requests below /d/, which it answers at
// once, and when the first and the last of them came, in nanoseconds since 1970.
type Seen struct{ Requests, First, Last int64 }

type receiver struct{ requests, first, last atomic.Int64 }

// Receive answers requests until in ends, that is until its starter does. The first line
// that it prints is its URL.
func Receive(ctx context.Context, in io.Reader, out io.Writer) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.7:0") // the kernel remembers how fast an address is: not the one of the tests
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: new(receiver).routes(), ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (r *receiver) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /d/", func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		now := time.Now().UnixNano()
		r.requests.Add(1)
		r.first.CompareAndSwap(0, now)
		r.last.Store(now)
	})
	mux.HandleFunc("POST /slow/", func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		select {
		case <-time.After(SlowAnswer):
		case <-req.Context().Done():
		}
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(Seen{r.requests.Load(), r.first.Load(), r.last.Load()})
	})
	mux.HandleFunc("POST /forget", func(http.ResponseWriter, *http.Request) {
		r.requests.Store(0)
		r.first.Store(0)
	})
	return mux
}
