package pgstore_test

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"testing"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
)

// Somebody starts whctl while the server is down: there is no socket, and what answers at
// localhost is of no use. Whctl must not stay with it. (The superuser needs a password
// over TCP, and none by the socket.)
func TestTheSocketIsFoundWhenTheServerComesUp(t *testing.T) {
	d, server := testbed.AloneDB(t)
	at, err := url.Parse(server.SocketURL(d.Name))
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	o := pgstore.Options{SocketFolder: q.Get("host")}
	q.Del("host")
	at.RawQuery = q.Encode()
	o.URL = at.String()

	resume := func(begin func()) {
		t.Helper()
		server.Halt()
		var listener net.ListenConfig
		other, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:"+q.Get("port"))
		if err != nil {
			t.Fatal(err)
		}
		begin()
		c, err := other.Accept() // it has looked once, and found no socket
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), other.Close(), server.Resume(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan error, 1)
	resume(func() {
		go func() {
			s, err := pgstore.Open(t.Context(), o)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
	})
	if err := testbed.Await(t, "the store", opened); err != nil {
		t.Errorf("the store: %v", err)
	}
	var ear *pgstore.Listener
	resume(func() {
		if ear, err = pgstore.Listen(t.Context(), o, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	})
	testbed.Await(t, "listening to begin", ear.Wake)
}
