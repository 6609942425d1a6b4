package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"example.com/whctl/internal/testbed"
)

// office is a receiver with a client that knows how to sign.
type office struct {
	*receiver
	d      *testbed.Database
	client *http.Client
	signer *standardwebhooks.Webhook
}

func openOffice(t *testing.T) *office {
	t.Helper()
	d := testbed.EmptyDB(t)
	db, err := sql.Open("postgres", d.AdminURL)
	if err != nil {
		t.Fatal(err)
	}
	if err := prepareReceiver(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	certificate, authority, err := certify()
	if err != nil {
		t.Fatal(err)
	}
	secret := newSecret()
	r, err := startReceiver(t.Context(), db, secret, certificate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority is no PEM")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return &office{receiver: r, d: d, client: &http.Client{Transport: transport}, signer: signer}
}

// letter is a delivery on its way to the office.
type letter struct {
	event   event
	attempt int
	forged  bool
}

func (o *office) request(ctx context.Context, t *testing.T, l letter) *http.Request {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"deliveryId": l.event.DeliveryID, "type": l.event.Type, "subject": l.event.Subject, "occurredAt": l.event.EventAt, "data": l.event.Payload,
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := o.signer.Sign(l.event.DeliveryID, now, body)
	if err != nil {
		t.Fatal(err)
	}
	if l.forged {
		signature = "v1,Zm9yZ2Vk"
	}
	for name, value := range map[string]string{
		"Idempotency-Key": l.event.DeliveryID, "X-Webhook-Attempt-Id": l.event.Subject + "-" + strconv.Itoa(l.attempt),
		"X-Webhook-Attempt": strconv.Itoa(l.attempt), "X-Webhook-Generation": "1",
		"webhook-id": l.event.DeliveryID, "webhook-timestamp": strconv.FormatInt(now.Unix(), 10), "webhook-signature": signature,
	} {
		req.Header.Set(name, value)
	}
	return req
}

// post sends a letter and returns the answer.
func (o *office) post(t *testing.T, l letter) (status int, text string) {
	t.Helper()
	resp, err := o.client.Do(o.request(t.Context(), t, l))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

// seats is how many seats are taken in all courses.
func (o *office) seats(t *testing.T) int64 {
	t.Helper()
	return testbed.QueryInt(t, o.d, `SELECT coalesce(sum(seats), 0) FROM registrar.courses`)
}

func TestReceiverAnswers(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	all := events()
	for _, c := range []struct {
		name   string
		letter letter
		status int
		text   string
		seats  int64 // taken after it, in all
	}{
		{"good", letter{event: all[0], attempt: 1}, 200, "enrolled", 1},
		{"the same again", letter{event: all[0], attempt: 2}, 200, "known already, nothing changed", 1},
		{"forged", letter{event: all[1], attempt: 1, forged: true}, 401, "the signature is not right", 1},
		{"busy once", letter{event: all[6], attempt: 1}, 503, "the registrar is busy, come again", 1},
		{"not twice", letter{event: all[6], attempt: 2}, 200, "enrolled", 2},
		{"malformed", letter{event: all[10], attempt: 1}, 400, "student.birth_date: [redacted] is no date, want YYYY-MM-DD", 2},
	} {
		status, text := o.post(t, c.letter)
		if status != c.status || text != c.text {
			t.Errorf("%s: answered %d %q, want %d %q", c.name, status, text, c.status, c.text)
		}
		if n := o.seats(t); n != c.seats {
			t.Errorf("%s: %d seats taken, want %d", c.name, n, c.seats)
		}
	}
	if n := testbed.QueryInt(t, o.d, `SELECT count(*) FROM registrar.posts`); n != 6 {
		t.Errorf("%d requests in the log, want 6", n)
	}
}

// Requests with the same key at the same moment are one change of state.
func TestReceiverRecognisesAKeyAtOnce(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			if status, text := o.post(t, letter{event: events()[0], attempt: n + 1}); status != 200 {
				t.Errorf("answered %d %s", status, text)
			}
		})
	}
	wg.Wait()
	applied := testbed.QueryInt(t, o.d, `SELECT count(*) FROM registrar.posts WHERE applied`)
	if n := o.seats(t); n != 1 || applied != 1 {
		t.Errorf("%d seats taken, %d requests applied; want 1 and 1", n, applied)
	}
}

// The receiver has committed before it falls silent, and knows the key when the sender
// comes again.
func TestReceiverCommitsBeforeItFallsSilent(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	last := events()[11]
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	request := o.request(ctx, t, letter{event: last, attempt: 1})
	go func() {
		resp, err := o.client.Do(request)
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- err
	}()
	if name := testbed.Await(t, "the commit", o.committed); name != last.Subject {
		t.Errorf("committed %s", name)
	}
	if n := o.seats(t); n != 1 {
		t.Errorf("%d seats taken before the answer", n)
	}
	leave()
	if err := testbed.Await(t, "the client", answered); err == nil {
		t.Error("there was an answer")
	}
	status, text := o.post(t, letter{event: last, attempt: 2})
	if status != 200 || text != "known already, nothing changed" || o.seats(t) != 1 {
		t.Errorf("second attempt: %d %s, %d seats", status, text, o.seats(t))
	}
}
