package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

// rowJSON is a line, in the words of the contract. A field that is not known is an
// error: a later version wrote it, and without it the row would not be what it was.
type rowJSON struct {
	DeliveryID    string        `json:"delivery_id"`
	Destination   string        `json:"destination"`
	Tenant        string        `json:"tenant"`
	Subject       string        `json:"subject"`
	EventType     string        `json:"event_type"`
	EventVersion  string        `json:"event_version"`
	EventID       string        `json:"event_id"`
	EventAt       time.Time     `json:"event_at"`
	NotAfter      time.Time     `json:"not_after"`
	Body          work.BodyKind `json:"body"`
	CreatedAt     time.Time     `json:"created_at"`
	FinishedAt    time.Time     `json:"finished_at"`
	State         work.State    `json:"state"`
	Generation    int           `json:"generation"`
	Attempts      int           `json:"attempts"`
	Class         work.Class    `json:"class"`
	Status        int           `json:"status"`
	Reason        work.Reason   `json:"reason"`
	Fingerprint   string        `json:"fingerprint"`
	Payload       *string       `json:"payload"`
	PayloadBase64 *[]byte       `json:"payload_base64"`
	History       history       `json:"history"`
}

type attemptJSON struct {
	AttemptID  uuid.UUID   `json:"attempt_id"`
	Generation int         `json:"generation"`
	Attempt    int         `json:"attempt"`
	Worker     string      `json:"worker"`
	StartedAt  time.Time   `json:"started_at"`
	FinishedAt time.Time   `json:"finished_at"`
	Class      work.Class  `json:"class"`
	Status     int         `json:"status"`
	Latency    json.Number `json:"latency_seconds"`
	Message    string      `json:"message"`
	Excerpt    string      `json:"excerpt"`
}

// history is read attempt by attempt, up to the first that is none: a line of nothing
// but brackets must not become a hundred times its size in memory.
type history []work.Attempt

// UnmarshalJSON implements json.Unmarshaler.
func (h *history) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return errors.Join(errors.New("history is no array"), err)
	}
	for dec.More() {
		var t attemptJSON
		if err := dec.Decode(&t); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		latency, err := t.latency()
		if err != nil || !t.Class.Known() {
			return errors.Join(fmt.Errorf("history: attempt %d has the class %q and the latency %q", t.Attempt, t.Class, t.Latency), err)
		}
		*h = append(*h, work.Attempt{
			ID: t.AttemptID, Generation: t.Generation, Number: t.Attempt, Worker: t.Worker, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt,
			Class: t.Class, Status: t.Status, Latency: latency, Message: t.Message, Excerpt: t.Excerpt,
		})
	}
	return nil
}

// latency reads the digits as they stand; a float would round them.
func (t *attemptJSON) latency() (time.Duration, error) {
	if t.Latency == "" {
		return 0, nil
	}
	return time.ParseDuration(string(t.Latency) + "s")
}

// decodeRow reads one line. Nothing in the row points into it.
func decodeRow(line []byte) (work.Archived, error) {
	switch {
	case len(line) == 0:
		return work.Archived{}, errors.New("the line is empty")
	case !utf8.Valid(line):
		return work.Archived{}, errors.New("not UTF-8") // the library would mend it silently
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var r rowJSON
	if err := dec.Decode(&r); err != nil {
		return work.Archived{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return work.Archived{}, errors.New("more than one value on the line")
	}
	a := work.Archived{
		Envelope: work.Envelope{
			DeliveryID: r.DeliveryID, Destination: r.Destination, Tenant: r.Tenant, Subject: r.Subject, EventType: r.EventType,
			EventVersion: r.EventVersion, EventID: r.EventID, EventAt: r.EventAt, NotAfter: r.NotAfter, Body: r.Body,
		},
		CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt, State: r.State, Generation: r.Generation, Attempts: r.Attempts,
		Class: r.Class, Status: r.Status, Reason: r.Reason, Fingerprint: r.Fingerprint, History: r.History,
	}
	switch {
	case r.Payload != nil && r.PayloadBase64 == nil:
		a.Payload = []byte(*r.Payload)
	case r.Payload == nil && r.PayloadBase64 != nil:
		a.Payload = *r.PayloadBase64
	default:
		return work.Archived{}, errors.New("want one of payload and payload_base64")
	}
	return a, a.Check()
}
