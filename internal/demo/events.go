package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The names under which the story's parts know each other.
const (
	destination = "registrar"
	keyName     = "enrolment"
	keyVariable = "ENROLMENT_KEY"
	eventType   = "enrolment.created"
)

// The enrolments that something happens to.
const (
	stumbling = "E-04" // the receiver answers 503 once
	retried   = "E-07" // so too; the story follows this one
	malformed = "E-11" // no receiver will ever take it
	orphaned  = "E-12" // its worker is killed
)

// student is the personal part of an enrolment, which must not come back in an error.
type student struct {
	Name      string `json:"name"`
	Email     string `json:"email"`
	BirthDate string `json:"birth_date"`
}

// enrolment is the payload of an event.
type enrolment struct {
	Course  string  `json:"course"`
	Student student `json:"student"`
}

// event is one line of events.jsonl.
type event struct {
	Destination string    `json:"destination"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"`
	EventAt     string    `json:"event_at"`
	DeliveryID  string    `json:"delivery_id"`
	Payload     enrolment `json:"payload"`
}

// deliveryID names the delivery of an enrolment so that people can type it.
func deliveryID(subject string) string { return "enrolment-" + subject }

// events are the twelve enrolments, a second apart from 10:00:00Z on.
func events() []event {
	people := [...]student{
		{"Ada Abel", "ada.abel@example.org", "2007-03-14"},
		{"Ben Birk", "ben.birk@example.org", "2006-11-02"},
		{"Cleo Cruz", "cleo.cruz@example.org", "2007-07-21"},
		{"Dora Dahl", "dora.dahl@example.org", "2005-01-30"},
		{"Emil Egede", "emil.egede@example.org", "2007-05-09"},
		{"Fay Fogh", "fay.fogh@example.org", "2006-08-17"},
		{"Gus Grant", "gus.grant@example.org", "2006-12-24"},
		{"Hana Hoff", "hana.hoff@example.org", "2007-02-11"},
		{"Ivo Iyer", "ivo.iyer@example.org", "2005-10-05"},
		{"Jana Juhl", "jana.juhl@example.org", "2007-09-19"},
		{"Kim Koch", "kim.koch@example.org", "31/02/2007"}, // malformed
		{"Lena Lund", "lena.lund@example.org", "2006-04-28"},
	}
	courses := [...]string{"ALGEBRA-1", "BOTANY-2", "CHEMISTRY-1"}
	first := time.Date(2026, time.September, 1, 10, 0, 0, 0, time.UTC)
	var all []event
	for i, who := range people {
		subject := fmt.Sprintf("E-%02d", i+1)
		all = append(all, event{
			Destination: destination, Type: eventType, Subject: subject,
			EventAt:    first.Add(time.Duration(i) * time.Second).Format(time.RFC3339),
			DeliveryID: deliveryID(subject),
			Payload:    enrolment{Course: courses[i%len(courses)], Student: who},
		})
	}
	return all
}

// jsonl is events as enqueue reads them.
func jsonl(events []event) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			return nil, fmt.Errorf("write event %s: %w", e.Subject, err)
		}
	}
	return b.Bytes(), nil
}

// personal lists everything about the students that must stay out of error texts.
func personal(events []event) []string {
	var all []string
	for _, e := range events {
		s := e.Payload.Student
		all = append(all, s.Name, s.Email, s.BirthDate)
	}
	return all
}
