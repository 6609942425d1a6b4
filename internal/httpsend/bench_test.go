package httpsend

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"

	"example.com/whctl/internal/work"
)

// BenchmarkSend is a signed POST of 512 bytes, 64 in flight, to a receiver in the same
// process that does as little as it can; RoundTrip is the bare transport on the same
// receiver, the ceiling.
func BenchmarkSend(b *testing.B) {
	rec := receiveWith(b, func(c net.Conn, _ *receiver, _ int) {
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) > 2 {
				continue
			}
			if _, err := in.Discard(512); err != nil || !say(c, ok) {
				return
			}
		}
	})
	c := loopback()
	c.MaxPlaces = 256
	s := newSender(b, c)
	r := request(rec.url)
	r.Body = bytes.Repeat([]byte("x"), 512)
	r.Keys = []Key{secret}
	b.Run("Send", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if o := s.Send(context.Background(), r); o.Class != work.OK {
					b.Errorf("%+v", o)
				}
			}
		})
	})
	b.Run("RoundTrip", func(b *testing.B) {
		t := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
		defer t.CloseIdleConnections()
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, rec.url, bytes.NewReader(r.Body))
				if err != nil {
					b.Error(err)
					return
				}
				resp, err := t.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				resp.Body.Close()
			}
		})
	})
}
