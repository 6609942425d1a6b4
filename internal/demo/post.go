package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// post is one request, and what is answered to it.
type post struct {
	key        string // Idempotency-Key
	attemptID  string
	generation int
	attempt    int
	sha256     string
	started    time.Time

	// The body: an envelope around an enrolment.
	Subject    string    `json:"subject"`
	OccurredAt time.Time `json:"occurredAt"`
	Data       enrolment `json:"data"`

	status  int
	result  string // what the answer says; it names fields, never their values
	applied bool
}

// ServeHTTP answers one delivery.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p, err := r.read(w, req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	think(req.Context())
	// What was begun is finished, also when the sender is gone by now: it is then that
	// the key matters.
	ctx := context.WithoutCancel(req.Context())
	if err := r.settle(ctx, p); err != nil {
		http.Error(w, "the registrar's own database failed", http.StatusInternalServerError)
		return
	}
	if p.applied && r.faults[try{p.Subject, p.attempt}] == silence {
		r.committed <- p.Subject
		<-req.Context().Done()      // the sender's connection breaks, or the receiver is closed
		panic(http.ErrAbortHandler) // to return would be an answer: 200
	}
	if p.status == http.StatusOK {
		w.WriteHeader(http.StatusOK)
		_, _ = fmt.Fprintln(w, p.result) // a sender that is gone will come again
		return
	}
	http.Error(w, p.result, p.status)
}

// read takes a request in and judges it. Its error is about a request that is no
// delivery at all; it is not written down.
func (r *receiver) read(w http.ResponseWriter, req *http.Request) (*post, error) {
	p := &post{started: time.Now(), key: req.Header.Get("Idempotency-Key"), attemptID: req.Header.Get("X-Webhook-Attempt-Id")}
	var err1, err2 error
	p.attempt, err1 = strconv.Atoi(req.Header.Get("X-Webhook-Attempt"))
	p.generation, err2 = strconv.Atoi(req.Header.Get("X-Webhook-Generation"))
	if req.Method != http.MethodPost || p.key == "" || p.attemptID == "" || err1 != nil || err2 != nil {
		return nil, errors.New("want a POST with Idempotency-Key and the X-Webhook headers")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyMax))
	if err != nil {
		return nil, errors.New("the body broke off, or is too large")
	}
	sum := sha256.Sum256(body)
	p.sha256 = hex.EncodeToString(sum[:])
	p.status, p.result = r.judge(p, body, req.Header)
	return p, nil
}

// judge decides about a request by what it says, and never by when it comes.
func (r *receiver) judge(p *post, body []byte, header http.Header) (status int, result string) {
	if err := r.webhook.Verify(body, header); err != nil || header.Get("webhook-id") != p.key {
		return http.StatusUnauthorized, "the signature is not right"
	}
	if err := json.Unmarshal(body, p); err != nil {
		return http.StatusBadRequest, "the body is not the JSON of an enrolment"
	}
	if p.generation == 1 && r.faults[try{p.Subject, p.attempt}] == unavailable {
		return http.StatusServiceUnavailable, "the registrar is busy, come again"
	}
	if _, err := time.Parse(time.DateOnly, p.Data.Student.BirthDate); err != nil {
		// Which field, and what it should be; what stands in it is nobody's business here.
		return http.StatusBadRequest, "student.birth_date: [redacted] is no date, want YYYY-MM-DD"
	}
	return http.StatusOK, "enrolled"
}

func think(ctx context.Context) {
	timer := time.NewTimer(thinking)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
