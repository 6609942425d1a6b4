package cli

import (
	"strconv"
	"strings"
	"time"

	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// summaryJSON is the contract of a run's summary.
type summaryJSON struct {
	WorkerID      string             `json:"worker_id"`
	StartedAt     render.Instant     `json:"started_at"`
	FinishedAt    render.Instant     `json:"finished_at"`
	Claimed       int                `json:"claimed"`
	Delivered     int                `json:"delivered"`
	Retried       int                `json:"retried"`
	Dead          int                `json:"dead"`
	Cancelled     int                `json:"cancelled"`
	LostRecovered int                `json:"lost_recovered"`
	Released      int                `json:"released"`
	Late          int                `json:"late"`
	HeldBack      heldBackJSON       `json:"held_back"`
	Unrecorded    int                `json:"unrecorded"`
	DueRemaining  *int64             `json:"due_remaining"`
	Latency       percentilesJSON    `json:"latency_seconds"`
	OldestDueAge  *float64           `json:"oldest_due_age_seconds"`
	ByClass       map[work.Class]int `json:"by_class"`
	StoppedBy     deliver.StoppedBy  `json:"stopped_by"`
}

// heldBackJSON counts due deliveries by what keeps them from being claimed.
type heldBackJSON struct {
	Paused      int64 `json:"paused"`
	CircuitOpen int64 `json:"circuit_open"`
	Rate        int64 `json:"rate"`
	InFlight    int64 `json:"in_flight"`
	RetryAfter  int64 `json:"retry_after"`
	NotReady    int64 `json:"not_ready"`
}

type percentilesJSON struct {
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
	P99 *float64 `json:"p99"`
	Max *float64 `json:"max"`
}

// summaryView shows sum. What is held back has a column where something is, and always
// one where all columns are asked for.
func summaryView(sum deliver.Summary) render.View[deliver.Summary] {
	number := func(header string, of func(deliver.Summary) int64) render.Column[deliver.Summary] {
		return render.Column[deliver.Summary]{
			Header: header, Right: true,
			Value: func(s deliver.Summary) string { return strconv.FormatInt(of(s), 10) },
		}
	}
	wide := func(c render.Column[deliver.Summary]) render.Column[deliver.Summary] {
		c.Wide = true
		return c
	}
	return render.View[deliver.Summary]{
		Columns: []render.Column[deliver.Summary]{
			number("CLAIMED", func(s deliver.Summary) int64 { return int64(s.Claimed) }),
			number("DELIVERED", func(s deliver.Summary) int64 { return int64(s.Delivered) }),
			number("RETRIED", func(s deliver.Summary) int64 { return int64(s.Retried) }),
			number("DEAD", func(s deliver.Summary) int64 { return int64(s.Dead) }),
			number("CANCELLED", func(s deliver.Summary) int64 { return int64(s.Cancelled) }),
			wide(number("LOST", func(s deliver.Summary) int64 { return int64(s.LostRecovered) })),
			wide(number("RELEASED", func(s deliver.Summary) int64 { return int64(s.Released) })),
			wide(number("LATE", func(s deliver.Summary) int64 { return int64(s.Late) })),
			{Header: "DUE", Right: true, Value: func(s deliver.Summary) string { return dueText(s.DueRemaining) }},
			{Header: "HELD BACK", Wide: heldBackText(sum.HeldBack) == "", Value: func(s deliver.Summary) string { return heldBackText(s.HeldBack) }},
			{Header: "P50", Right: true, Value: func(s deliver.Summary) string { return latency(s.Latency.P50) }},
			{Header: "P99", Right: true, Value: func(s deliver.Summary) string { return latency(s.Latency.P99) }},
			{Header: "STOPPED BY", Value: func(s deliver.Summary) string { return string(s.StoppedBy) }},
		},
		JSON: func(s deliver.Summary) any { return summaryDocument(s) },
		Name: func(s deliver.Summary) string { return s.WorkerID },
	}
}

func summaryDocument(s deliver.Summary) summaryJSON {
	return summaryJSON{
		WorkerID: s.WorkerID, StartedAt: render.Instant(s.StartedAt), FinishedAt: render.Instant(s.FinishedAt),
		Claimed: s.Claimed, Delivered: s.Delivered, Retried: s.Retried, Dead: s.Dead, Cancelled: s.Cancelled,
		LostRecovered: s.LostRecovered, Released: s.Released, Late: s.Late, Unrecorded: s.Unrecorded, DueRemaining: s.DueRemaining,
		HeldBack:     heldBackDocument(s.HeldBack),
		Latency:      percentilesJSON{seconds(s.Latency.P50), seconds(s.Latency.P90), seconds(s.Latency.P99), seconds(s.Latency.Max)},
		OldestDueAge: seconds(s.OldestDueAge), ByClass: s.ByClass, StoppedBy: s.StoppedBy,
	}
}

func heldBackDocument(n map[work.Hold]int64) heldBackJSON {
	return heldBackJSON{
		Paused: n[work.HoldPaused], CircuitOpen: n[work.HoldCircuit], Rate: n[work.HoldRate], InFlight: n[work.HoldInFlight],
		RetryAfter: n[work.HoldRetryAfter], NotReady: n[work.HoldNotReady],
	}
}

// heldBackText is what is held back, for a table: how much and why.
func heldBackText(n map[work.Hold]int64) string {
	var parts []string
	for _, hold := range work.Holds() {
		if n[hold] > 0 {
			parts = append(parts, strconv.FormatInt(n[hold], 10)+" "+string(hold))
		}
	}
	return strings.Join(parts, ", ")
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	v := render.Seconds(*d)
	return &v
}

func dueText(n *int64) string {
	if n == nil {
		return "?"
	}
	return strconv.FormatInt(*n, 10)
}

func latency(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return d.Round(100 * time.Microsecond).String()
}
