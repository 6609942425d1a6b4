package cli

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// destinationJSON is the contract of a destination. Values that the policy decides are
// null.
type destinationJSON struct {
	Name        string                    `json:"name"`
	URL         string                    `json:"url"`
	Policy      string                    `json:"policy"`
	Key         *string                   `json:"key"`
	MaxInFlight *int                      `json:"max_in_flight"`
	Rate        *string                   `json:"rate"`
	Headers     map[string]work.Reference `json:"headers"`
	Tenants     []string                  `json:"tenants"`
	Body        *string                   `json:"body"`
	PayloadMax  *int64                    `json:"payload_max"`
	CreatedAt   render.Instant            `json:"created_at"`
	UpdatedAt   render.Instant            `json:"updated_at"`
	healthJSON
	NotReadyHere *string `json:"not_ready_here"` // why this process could not send to it
}

// healthJSON is the contract of a destination's health. Times are null where there is
// nothing to wait for.
type healthJSON struct {
	Paused          bool                 `json:"paused"`
	PausedReason    *string              `json:"paused_reason"`
	PausedBy        *string              `json:"paused_by"`
	PausedAt        *render.Instant      `json:"paused_at"`
	Circuit         policy.CircuitStatus `json:"circuit"`
	OpenUntil       *render.Instant      `json:"open_until"`
	RetryAfterUntil *render.Instant      `json:"retry_after_until"`
}

// loadedDestinationJSON is the contract of one destination with what it has to do.
type loadedDestinationJSON struct {
	destinationJSON
	InFlight  int64 `json:"in_flight"`
	Due       int64 `json:"due"`
	Scheduled int64 `json:"scheduled"`
	Stuck     int64 `json:"stuck"`
	Dead      int64 `json:"dead"`
	// What holds where the destination says nothing; null: this configuration lacks its policy.
	EffectiveMaxInFlight *int    `json:"effective_max_in_flight"`
	EffectiveRate        *string `json:"effective_rate"`
	Held                 []hold  `json:"held"`
}

func destinationDocument(d work.Destination, o outlook, reveal bool, asOf time.Time) destinationJSON {
	doc := destinationJSON{
		Name: d.Name, URL: shownURL(d.URL, reveal), Policy: d.Policy, Key: orNull(d.Key), MaxInFlight: orNull(d.MaxInFlight),
		Rate: orNull(d.Rate), Headers: d.Headers, Tenants: d.Tenants, Body: orNull(string(d.Body)), PayloadMax: orNull(d.PayloadMax),
		CreatedAt: render.Instant(d.CreatedAt), UpdatedAt: render.Instant(d.UpdatedAt),
		healthJSON: healthDocument(d.Health, asOf), NotReadyHere: orNull(o.why()),
	}
	if doc.Headers == nil {
		doc.Headers = map[string]work.Reference{}
	}
	if doc.Tenants == nil {
		doc.Tenants = []string{}
	}
	return doc
}

// orNull is v for JSON, null where it says nothing.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// shownURL is what of a URL is printed. Path and query may hold secrets; a user name or
// password, which only a row put in by hand can have, is never shown.
func shownURL(raw string, reveal bool) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "…" // nothing in it can be told to be harmless
	}
	u.User = nil
	if reveal {
		return u.String()
	}
	base := url.URL{Scheme: u.Scheme, Host: u.Host}
	if u.RequestURI() == "/" && u.Fragment == "" {
		return base.String() + u.Path
	}
	return base.String() + "/…"
}

func healthDocument(h work.Health, asOf time.Time) healthJSON {
	doc := healthJSON{
		Paused: !h.Pause.At.IsZero(), PausedReason: orNull(h.Pause.Reason), PausedBy: orNull(h.Pause.By), PausedAt: instantOrNull(h.Pause.At),
		Circuit: policy.CircuitState(h, asOf), OpenUntil: instantOrNull(h.OpenUntil),
	}
	if h.HeldUntil.After(asOf) {
		doc.RetryAfterUntil = instantOrNull(h.HeldUntil)
	}
	return doc
}

func instantOrNull(t time.Time) *render.Instant {
	if t.IsZero() {
		return nil
	}
	i := render.Instant(t)
	return &i
}

func destinationView(look func(work.Destination) outlook, reveal bool, asOf time.Time) render.View[work.Destination] {
	text := func(header string, of func(work.Destination) string) render.Column[work.Destination] {
		return render.Column[work.Destination]{Header: header, Value: of}
	}
	wide := func(header string, of func(work.Destination) string) render.Column[work.Destination] {
		return render.Column[work.Destination]{Header: header, Wide: true, Value: of}
	}
	return render.View[work.Destination]{
		Columns: []render.Column[work.Destination]{
			text("NAME", func(d work.Destination) string { return d.Name }),
			text("URL", func(d work.Destination) string { return shownURL(d.URL, reveal) }),
			text("POLICY", func(d work.Destination) string { return d.Policy }),
			text("KEY", func(d work.Destination) string { return d.Key }),
			text("MAX IN FLIGHT", func(d work.Destination) string { return orPolicy(int64(d.MaxInFlight)) }),
			text("RATE", func(d work.Destination) string { return d.Rate }),
			text("HELD", func(d work.Destination) string { return heldText(d, look(d), asOf) }),
			wide("HEADERS", work.Destination.HeaderText),
			wide("TENANTS", work.Destination.TenantText),
			wide("BODY", func(d work.Destination) string { return string(d.Body) }),
			wide("PAYLOAD MAX", func(d work.Destination) string { return orPolicy(d.PayloadMax) }),
			wide("UPDATED AT", func(d work.Destination) string { return render.Time(d.UpdatedAt) }),
		},
		JSON: func(d work.Destination) any { return destinationDocument(d, look(d), reveal, asOf) },
		Name: func(d work.Destination) string { return d.Name },
	}
}

// orPolicy is n, or nothing where the policy decides.
func orPolicy(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

type loadedDestination struct {
	work.Destination
	load    work.DestinationLoad
	outlook outlook
	asOf    time.Time
	reveal  bool
}

func (l loadedDestination) fields() []render.Field {
	d := l.Destination
	count := func(n int64) string { return render.Count(n) }
	return []render.Field{
		{Name: "Name", Value: d.Name},
		{Name: "URL", Value: shownURL(d.URL, l.reveal)},
		{Name: "Policy", Value: d.Policy},
		{Name: "Key", Value: d.Key},
		{Name: "Max in flight", Value: l.orOfPolicy(orPolicy(int64(d.MaxInFlight)), strconv.Itoa(l.outlook.policy.MaxInFlight))},
		{Name: "Rate", Value: l.orOfPolicy(d.Rate, l.outlook.policy.Rate.String())},
		{Name: "Headers", Value: d.HeaderText()},
		{Name: "Tenants", Value: d.TenantText()},
		{Name: "Body", Value: l.orOfPolicy(string(d.Body), string(l.outlook.policy.Body))},
		{Name: "Payload max", Value: orPolicy(d.PayloadMax)},
		{Name: "Held", Value: l.holdsText()},
		{Name: "Paused", Value: pauseText(d.Health.Pause)},
		{Name: "Circuit", Value: circuitText(d.Health, l.asOf)},
		{Name: "Retry after", Value: retryAfterText(d.Health, l.asOf)},
		{Name: "In flight", Value: count(l.load.InFlight)},
		{Name: "Due", Value: count(l.load.Due)},
		{Name: "Scheduled", Value: count(l.load.Scheduled)},
		{Name: "Stuck", Value: count(l.load.Stuck)},
		{Name: "Dead", Value: count(l.load.Dead)},
		{Name: "Created", Value: render.Time(d.CreatedAt)},
		{Name: "Updated", Value: render.Time(d.UpdatedAt)},
	}
}

func loadedView() render.View[loadedDestination] {
	var columns []render.Column[loadedDestination]
	for i, f := range (loadedDestination{}).fields() {
		columns = append(columns, render.Column[loadedDestination]{
			Header: strings.ToUpper(f.Name),
			Value:  func(l loadedDestination) string { return l.fields()[i].Value },
		})
	}
	return render.View[loadedDestination]{
		Columns: columns,
		JSON: func(l loadedDestination) any {
			doc := loadedDestinationJSON{
				destinationJSON: destinationDocument(l.Destination, l.outlook, l.reveal, l.asOf), InFlight: l.load.InFlight, Due: l.load.Due,
				Scheduled: l.load.Scheduled, Stuck: l.load.Stuck, Dead: l.load.Dead, Held: l.holds(),
			}
			if p := l.outlook.policy; p.Name != "" {
				doc.EffectiveMaxInFlight, doc.EffectiveRate = &p.MaxInFlight, new(p.Rate.String())
			}
			return doc
		},
		Name: func(l loadedDestination) string { return l.Name },
	}
}
