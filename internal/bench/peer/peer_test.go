package peer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

// The comparison is fair only if everybody sends as much.
func TestBodyIsAsLongAsWhctls(t *testing.T) {
	id, subject, payload := strings.Repeat("0", 36), "s0000000007", Payload(7, 512)
	if len(payload) != 512 || !json.Valid(payload) {
		t.Errorf("payload of %d bytes: %s", len(payload), payload)
	}
	e := work.Envelope{
		DeliveryID: id, EventType: "bench.happened", EventVersion: "1", Subject: subject,
		EventAt: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC), Payload: payload,
	}
	want, err := e.Bytes(work.BodyEnvelope)
	if err != nil {
		t.Fatal(err)
	}
	if got := Body(id, subject, payload); string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The signature was made by the library of Standard Webhooks.
func TestSignature(t *testing.T) {
	got := newPoster(1).sign("id-1", "1700000000", []byte(`{"a":1}`))
	if want := "v1,CyTe2YPv0V8q6oPhBvbds1IocULrBsp64ozwFQNmww4="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPostSendsWhctlsHeaders(t *testing.T) {
	var header http.Header
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.WriteHeader(status)
	}))
	defer server.Close()
	to, err := url.Parse(server.URL + "/d/1")
	if err != nil {
		t.Fatal(err)
	}
	p := newPoster(1)
	defer p.transport.CloseIdleConnections()
	if err := p.post(t.Context(), to, "id-1", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Content-Type", "User-Agent", "Idempotency-Key", "X-Webhook-Attempt-Id", "X-Webhook-Attempt", "X-Webhook-Generation",
		"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
	} {
		if header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
	status = http.StatusServiceUnavailable
	if err := p.post(t.Context(), to, "id-1", []byte("{}")); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a refusal is %v", err)
	}
}

func TestReceiverAndCeiling(t *testing.T) {
	in, hold := io.Pipe()
	out, told := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Receive(context.WithoutCancel(t.Context()), in, told) }()
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSpace(string(line[:n]))
	ran, err := Ceiling{To: at, N: 50, InFlight: 4, Size: 512}.Post(t.Context())
	if err != nil || ran.Units != 50 {
		t.Errorf("%+v, %v", ran, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/seen", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var seen Seen
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil || seen.Requests != 50 || seen.First == 0 || seen.Last < seen.First {
		t.Errorf("seen %+v, %v", seen, err)
	}
	_ = resp.Body.Close()
	_ = hold.Close()
	if err := <-done; err != nil {
		t.Errorf("the receiver ended with %v", err)
	}
}
