package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// detailJSON is the contract of show: the columns of whctl.delivery_status, with the
// attempts themselves under that name, and what the view leaves out.
type detailJSON struct {
	DeliveryID     string         `json:"delivery_id"`
	State          work.State     `json:"state"`
	Destination    string         `json:"destination"`
	Tenant         string         `json:"tenant"`
	Subject        string         `json:"subject"`
	EventType      string         `json:"event_type"`
	EventVersion   string         `json:"event_version"`
	EventID        string         `json:"event_id"`
	EventAt        render.Instant `json:"event_at"`
	NotAfter       render.Instant `json:"not_after"`
	PayloadBytes   int64          `json:"payload_bytes"`
	Generation     int            `json:"generation"`
	InGeneration   int            `json:"attempts_in_generation"`
	NextAttemptAt  render.Instant `json:"next_attempt_at"`
	LeaseHolder    *string        `json:"lease_holder"`
	LeaseExpiresAt render.Instant `json:"lease_expires_at"`
	Class          *work.Class    `json:"class"`
	Status         *int           `json:"status"`
	Reason         *work.Reason   `json:"reason"`
	Fingerprint    *string        `json:"fingerprint"`
	CreatedAt      render.Instant `json:"created_at"`
	FinishedAt     render.Instant `json:"finished_at"`
	Attempts       []attemptJSON  `json:"attempts"`
	Acts           []actJSON      `json:"acts"`
}

type attemptJSON struct {
	AttemptID  string         `json:"attempt_id"`
	DeliveryID string         `json:"delivery_id"`
	Generation int            `json:"generation"`
	Attempt    int            `json:"attempt"`
	Worker     string         `json:"worker"`
	StartedAt  render.Instant `json:"started_at"`
	FinishedAt render.Instant `json:"finished_at"`
	Class      *work.Class    `json:"class"`
	Status     *int           `json:"status"`
	Latency    *float64       `json:"latency_seconds"`
	Message    *string        `json:"message"`
	Excerpt    *string        `json:"excerpt"`
}

type actJSON struct {
	At       render.Instant `json:"at"`
	Operator string         `json:"operator"`
	Role     string         `json:"role"`
	Action   string         `json:"action"`
	Reason   string         `json:"reason"`
}

func detailDocument(d work.Detail) detailJSON {
	doc := detailJSON{
		DeliveryID: d.DeliveryID, State: d.State, Destination: d.Destination, Tenant: d.Tenant, Subject: d.Subject,
		EventType: d.EventType, EventVersion: d.EventVersion, EventID: d.EventID, EventAt: render.Instant(d.EventAt),
		NotAfter: render.Instant(d.NotAfter), PayloadBytes: d.PayloadBytes, Generation: d.Generation, InGeneration: d.Attempts,
		NextAttemptAt: render.Instant(d.NextAttemptAt), LeaseHolder: orNull(d.LeaseHolder),
		LeaseExpiresAt: render.Instant(d.LeaseExpiresAt), Class: orNull(d.Class), Status: orNull(d.Status), Reason: orNull(d.Reason),
		Fingerprint: orNull(d.Fingerprint), CreatedAt: render.Instant(d.CreatedAt), FinishedAt: render.Instant(d.FinishedAt),
		Attempts: []attemptJSON{}, Acts: []actJSON{},
	}
	for _, t := range d.History {
		one := attemptJSON{
			AttemptID: t.ID.String(), DeliveryID: d.DeliveryID, Generation: t.Generation, Attempt: t.Number, Worker: t.Worker,
			StartedAt: render.Instant(t.StartedAt), FinishedAt: render.Instant(t.FinishedAt), Class: orNull(t.Class),
			Status: orNull(t.Status), Message: orNull(t.Message), Excerpt: orNull(t.Excerpt),
		}
		if t.Latency > 0 {
			one.Latency = orNull(render.Seconds(t.Latency))
		}
		doc.Attempts = append(doc.Attempts, one)
	}
	for _, x := range d.Acts {
		doc.Acts = append(doc.Acts, actJSON{render.Instant(x.At), x.Operator, x.Role, x.Action, x.Reason})
	}
	return doc
}

func detailView() render.View[work.Detail] {
	text := func(header string, of func(work.Detail) string) render.Column[work.Detail] {
		return render.Column[work.Detail]{Header: header, Value: of}
	}
	return render.View[work.Detail]{
		Columns: []render.Column[work.Detail]{
			text("DELIVERY ID", func(d work.Detail) string { return d.DeliveryID }),
			text("STATE", func(d work.Detail) string { return string(d.State) }),
			text("DESTINATION", func(d work.Detail) string { return d.Destination }),
			text("TENANT", func(d work.Detail) string { return d.Tenant }),
			text("SUBJECT", func(d work.Detail) string { return d.Subject }),
			text("EVENT TYPE", func(d work.Detail) string { return d.EventType }),
			text("EVENT VERSION", func(d work.Detail) string { return d.EventVersion }),
			text("GENERATION", func(d work.Detail) string { return strconv.Itoa(d.Generation) }),
			text("ATTEMPTS", func(d work.Detail) string { return strconv.Itoa(d.Attempts) }),
			text("CLASS", func(d work.Detail) string { return string(d.Class) }),
			text("STATUS", func(d work.Detail) string { return statusText(d.Status) }),
			text("REASON", func(d work.Detail) string { return string(d.Reason) }),
			text("NEXT ATTEMPT AT", func(d work.Detail) string { return render.Time(d.NextAttemptAt) }),
			text("CREATED AT", func(d work.Detail) string { return render.Time(d.CreatedAt) }),
			text("FINISHED AT", func(d work.Detail) string { return render.Time(d.FinishedAt) }),
		},
		JSON: func(d work.Detail) any { return detailDocument(d) },
		Name: func(d work.Detail) string { return d.DeliveryID },
	}
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return strconv.Itoa(status)
}

// writeDetail shows one delivery to a person. Nothing is cut: whoever asks for one
// delivery wants all of it.
func writeDetail(w io.Writer, o render.Options, d work.Detail) error {
	o.Format, o.Width = render.Table, 0
	if err := render.Fields(w, o, detailFields(d)); err != nil {
		return err
	}
	if len(d.History) > 0 {
		if err := render.Title(w, o, "Attempts"); err != nil {
			return err
		}
		if err := attemptView().Write(w, o, d.History); err != nil {
			return err
		}
	}
	for _, t := range d.History {
		if t.Excerpt == "" {
			continue
		}
		if err := render.Title(w, o, fmt.Sprintf("Answer to attempt %d of generation %d", t.Number, t.Generation)); err != nil {
			return err
		}
		if err := render.Block(w, t.Excerpt); err != nil {
			return err
		}
	}
	if len(d.Acts) == 0 {
		return nil
	}
	if err := render.Title(w, o, "Acts"); err != nil {
		return err
	}
	return actView().Write(w, o, d.Acts)
}

func detailFields(d work.Detail) []render.Field {
	fields := []render.Field{
		{Name: "Delivery", Value: d.DeliveryID},
		{Name: "State", Value: stateText(d)},
		{Name: "Destination", Value: d.Destination},
		{Name: "Tenant", Value: d.Tenant},
		{Name: "Subject", Value: d.Subject},
		{Name: "Event type", Value: d.EventType},
		{Name: "Event version", Value: d.EventVersion},
		{Name: "Event id", Value: d.EventID},
		{Name: "Event at", Value: render.Time(d.EventAt)},
		{Name: "Not after", Value: render.Time(d.NotAfter)},
		{Name: "Payload", Value: render.Bytes(d.PayloadBytes)},
		{Name: "Generation", Value: fmt.Sprintf("%d, attempts in it: %d", d.Generation, d.Attempts)},
	}
	switch d.State {
	case work.Scheduled:
		fields = append(fields, render.Field{Name: "Next attempt", Value: instantText(d.NextAttemptAt, d.AsOf)})
	case work.Leased:
		fields = append(fields,
			render.Field{Name: "Leased to", Value: d.LeaseHolder},
			render.Field{Name: "Lease ends", Value: instantText(d.LeaseExpiresAt, d.AsOf)})
	default:
		fields = append(fields, render.Field{Name: "Finished", Value: instantText(d.FinishedAt, d.AsOf)})
	}
	return append(fields,
		render.Field{Name: "Last outcome", Value: outcomeText(d)},
		render.Field{Name: "Fingerprint", Value: d.Fingerprint},
		render.Field{Name: "Created", Value: instantText(d.CreatedAt, d.AsOf)})
}

func stateText(d work.Detail) string {
	text := string(d.State)
	if d.Reason != work.NoReason {
		text += " (" + string(d.Reason) + ")"
	}
	if d.State == work.Leased && !d.LeaseExpiresAt.After(d.AsOf) {
		text += " (the lease ran out; the next run closes this attempt as lost)"
	}
	return text
}

func outcomeText(d work.Detail) string {
	if d.Status == 0 {
		return string(d.Class)
	}
	return fmt.Sprintf("%s (%d)", d.Class, d.Status)
}

// instantText is a time and how far away it is.
func instantText(t, asOf time.Time) string {
	if t.IsZero() {
		return ""
	}
	away := render.Age(asOf.Sub(t))
	if asOf.Sub(t) >= 0 {
		away += " ago"
	}
	return render.Time(t) + " (" + away + ")"
}

func attemptView() render.View[work.Attempt] {
	return render.View[work.Attempt]{Columns: []render.Column[work.Attempt]{
		{Header: "GENERATION", Right: true, Value: func(t work.Attempt) string { return strconv.Itoa(t.Generation) }},
		{Header: "ATTEMPT", Right: true, Value: func(t work.Attempt) string { return strconv.Itoa(t.Number) }},
		{Header: "STARTED AT", Value: func(t work.Attempt) string { return render.Time(t.StartedAt) }},
		{Header: "CLASS", Value: classText},
		{Header: "STATUS", Right: true, Value: func(t work.Attempt) string { return statusText(t.Status) }},
		{Header: "LATENCY", Right: true, Value: latencyText},
		{Header: "WORKER", Value: func(t work.Attempt) string { return t.Worker }},
		{Header: "ATTEMPT ID", Value: func(t work.Attempt) string { return t.ID.String() }},
		{Header: "MESSAGE", Value: func(t work.Attempt) string { return t.Message }},
	}}
}

func classText(t work.Attempt) string {
	if t.Class == "" {
		return "(open)"
	}
	return string(t.Class)
}

func latencyText(t work.Attempt) string {
	if t.Latency == 0 {
		return ""
	}
	return t.Latency.Round(100 * time.Microsecond).String()
}

func actView() render.View[work.Act] {
	return render.View[work.Act]{Columns: []render.Column[work.Act]{
		{Header: "AT", Value: func(x work.Act) string { return render.Time(x.At) }},
		{Header: "OPERATOR", Value: func(x work.Act) string { return x.Operator }},
		{Header: "ROLE", Value: func(x work.Act) string { return x.Role }},
		{Header: "ACTION", Value: func(x work.Act) string { return x.Action }},
		{Header: "REASON", Value: func(x work.Act) string { return x.Reason }},
	}}
}
