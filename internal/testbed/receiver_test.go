package testbed_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// client trusts the bench's authority.
func client(t *testing.T) *http.Client {
	t.Helper()
	text, err := os.ReadFile(testbed.CAFile(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in the file")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// post sends one attempt and returns the status, 0 with the error.
func post(ctx context.Context, c *http.Client, url, key string, attempt int, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-Webhook-Attempt-Id", fmt.Sprintf("00000000-0000-0000-0000-%012d", attempt))
	req.Header.Set("X-Webhook-Attempt", fmt.Sprint(attempt))
	req.Header.Set("X-Webhook-Generation", "1")
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func TestReceiverKeepsALog(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]testbed.ReceiverOptions{
		"https": {}, "http": {Plain: true}, "another address": {Host: "127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Handler = testbed.Script(503, 200)
			r := testbed.Receiver(t, o)
			c := client(t)
			for i, want := range []int{503, 200, 200} {
				if got, err := post(t.Context(), c, r.URL, "d-1", i+1, "a\x00b\n"); got != want || err != nil {
					t.Errorf("POST %d: got %d, %v", i+1, got, err)
				}
			}
			seen := r.Seen()
			if len(seen) != 3 {
				t.Fatalf("saw:\n%s", r.Log())
			}
			s := seen[0]
			if s.DeliveryID != "d-1" || s.AttemptID != "00000000-0000-0000-0000-000000000001" || s.Attempt != 1 || s.Generation != 1 ||
				s.Status != 503 || s.BodySHA256 != "3a100994c4e38751871e6e8eef9adad2b20177fdeaf650daacdcd74f4c9421e3" ||
				s.Started.IsZero() || s.Finished.Before(s.Started) {
				t.Errorf("the first POST: %+v", s)
			}
			requests := r.Wait(3)
			if q := requests[2]; string(q.Body) != "a\x00b\n" || q.N != 3 || q.Conn != 1 || q.Path != "/hook" || q.ContentLength != 4 {
				t.Errorf("the third request: %+v", q)
			}
			if n := r.Connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestWaitWakesWhenARequestArrives(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := testbed.Receiver(t, testbed.ReceiverOptions{Handler: func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		if req.Hold(release) {
			w.WriteHeader(http.StatusAccepted)
		}
	}})
	c := client(t)
	answers := make(chan int, 2)
	for i := range 2 {
		go func() {
			status, _ := post(t.Context(), c, r.URL, "d", i+1, "") // 0 is no answer
			answers <- status
		}()
	}
	for _, q := range r.Wait(2) {
		if q.Status() != 0 || !q.Finished().IsZero() {
			t.Errorf("answered before its time: %d", q.Status())
		}
	}
	close(release)
	r.WaitAnswered(2)
	for range 2 {
		if got := testbed.Await(t, "an answer", answers); got != http.StatusAccepted {
			t.Errorf("got %d", got)
		}
	}
}

func TestAClientThatLeftGetsNoAnswer(t *testing.T) {
	t.Parallel()
	handled := make(chan bool, 1)
	r := testbed.Receiver(t, testbed.ReceiverOptions{Handler: func(w http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		handled <- req.Hold(nil)
		w.WriteHeader(http.StatusOK)
	}})
	ctx, leave := context.WithCancel(t.Context())
	c := client(t)
	gone := make(chan error, 1)
	go func() {
		_, err := post(ctx, c, r.URL, "d", 1, "x")
		gone <- err
	}()
	r.Wait(1)
	leave()
	if err := testbed.Await(t, "the client", gone); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	if testbed.Await(t, "the handler", handled) {
		t.Error("Hold was released")
	}
	q := r.WaitFor("the client to leave", func(rs []*testbed.Request) bool { return !rs[0].Finished().IsZero() })[0]
	if q.Status() != 0 {
		t.Errorf("status %d", q.Status())
	}
}

func TestCloseAnswersNobody(t *testing.T) {
	t.Parallel()
	r := testbed.Receiver(t, testbed.ReceiverOptions{Handler: func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) {
		req.Hold(nil)
	}})
	c := client(t)
	gone := make(chan error, 1)
	go func() {
		_, err := post(t.Context(), c, r.URL, "d", 1, "x")
		gone <- err
	}()
	r.Wait(1)
	r.Close()
	if err := testbed.Await(t, "the client", gone); err == nil {
		t.Error("got an answer")
	}
}

func TestCertificatesThatAreNotGood(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]testbed.CertificateOptions{
		"expired": {Expired: true}, "another's": {Hosts: []string{"other.test"}}, "unknown authority": {Stranger: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert := testbed.Certificate(t, o)
			r := testbed.Receiver(t, testbed.ReceiverOptions{Certificate: &cert})
			_, err := post(t.Context(), client(t), r.URL, "d", 1, "x")
			var verify *tls.CertificateVerificationError
			if !errors.As(err, &verify) {
				t.Errorf("got %v", err)
			}
			if r.Count() != 0 || r.Connections() != 1 {
				t.Errorf("%d connections, saw:\n%s", r.Connections(), r.Log())
			}
		})
	}
}

func TestRawAnswersWhatItLikes(t *testing.T) {
	t.Parallel()
	r := testbed.Raw(t, func(c *testbed.Conn) {
		req, err := c.Request()
		if err != nil {
			return
		}
		if bytes.Equal(req.Body, []byte("break")) {
			c.Reset()
			return
		}
		req.Answered(299)
		_, _ = io.WriteString(c, "HTTP/1.1 299 Hm\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	c := client(t)
	if got, err := post(t.Context(), c, r.URL, "d", 1, "x"); got != 299 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := post(t.Context(), c, r.URL, "d", 2, "break"); err == nil {
		t.Errorf("got %d", got)
	}
	r.WaitFor("the end", func(rs []*testbed.Request) bool { return len(rs) == 2 && !rs[1].Finished().IsZero() })
	if seen := r.Seen(); seen[0].Status != 299 || seen[1].Status != 0 {
		t.Errorf("saw:\n%s", r.Log())
	}
}
