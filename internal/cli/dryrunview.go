package cli

import (
	"strconv"

	"github.com/dustin/go-humanize"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// previewJSON is the contract of what a cutoff would remove. What is null was not counted.
type previewJSON struct {
	Policy        string               `json:"policy"`
	Version       int                  `json:"version"`
	Target        work.Target          `json:"target"`
	Cutoff        render.Instant       `json:"cutoff"`
	AsOf          render.Instant       `json:"as_of"`
	Estimated     bool                 `json:"estimated"`
	Candidates    int64                `json:"candidates"`
	Removable     int64                `json:"removable"`
	Oldest        *render.Instant      `json:"oldest"`
	Newest        *render.Instant      `json:"newest"`
	Attempts      *int64               `json:"attempts"`
	BytesEstimate int64                `json:"bytes_estimate"`
	Batches       int64                `json:"batches"`
	Seconds       *float64             `json:"seconds_estimate"`
	ByState       map[work.State]int64 `json:"by_state"`
	ByDestination []destinationCount   `json:"by_destination"`
	Protected     protectedJSON        `json:"protected"`
	Compared      comparedJSON         `json:"compared_with_current"`
}

type destinationCount struct {
	Destination string         `json:"destination"`
	Count       int64          `json:"count"`
	Oldest      render.Instant `json:"oldest"`
}

// protectedJSON counts what is as old as the cutoff and stays.
type protectedJSON struct {
	InFlight        *int64 `json:"in_flight"`
	NotTerminal     *int64 `json:"not_terminal"`
	Dead            *int64 `json:"dead"`
	DuplicateWindow int64  `json:"duplicate_window"`
}

type comparedJSON struct {
	Keep       float64 `json:"keep"` // seconds
	Candidates int64   `json:"candidates"`
	Delta      int64   `json:"delta"`
}

func previewView() render.View[cutoffPreview] {
	number := func(header string, of func(cutoffPreview) int64) render.Column[cutoffPreview] {
		return render.Column[cutoffPreview]{Header: header, Right: true, Value: func(p cutoffPreview) string { return strconv.FormatInt(of(p), 10) }}
	}
	return render.View[cutoffPreview]{
		Columns: []render.Column[cutoffPreview]{
			{Header: "POLICY", Fixed: true, Value: func(p cutoffPreview) string { return p.Policy }},
			{Header: "CUTOFF", Fixed: true, Value: func(p cutoffPreview) string { return render.Time(p.Cutoff) }},
			number("CANDIDATES", func(p cutoffPreview) int64 { return p.Candidates }),
			number("REMOVABLE", cutoffPreviewRemoved),
			{Header: "ATTEMPTS", Right: true, Value: func(p cutoffPreview) string { return dueText(p.counted(p.Attempts)) }},
			{Header: "OLDEST", Wide: true, Value: func(p cutoffPreview) string { return render.Time(p.Oldest) }},
			{Header: "NEWEST", Wide: true, Value: func(p cutoffPreview) string { return render.Time(p.Newest) }},
			{Header: "SIZE", Right: true, Value: func(p cutoffPreview) string { return humanize.IBytes(uint64(max(p.Bytes, 0))) }},
			number("BATCHES", func(p cutoffPreview) int64 { return p.batches() }),
		},
		JSON: func(p cutoffPreview) any { return previewDocument(p) },
		Name: func(p cutoffPreview) string { return p.Policy },
	}
}

func cutoffPreviewRemoved(p cutoffPreview) int64 { return p.Removed() }

// counted is a number that only counting tells.
func (p cutoffPreview) counted(n int64) *int64 {
	if p.Estimated {
		return nil
	}
	return &n
}

func previewDocument(p cutoffPreview) previewJSON {
	doc := previewJSON{
		Policy: p.Policy, Version: p.Version, Target: p.Target, Cutoff: render.Instant(p.Cutoff), AsOf: render.Instant(p.AsOf), Estimated: p.Estimated,
		Candidates: p.Candidates, Removable: p.Removed(), Attempts: p.counted(p.Attempts), BytesEstimate: p.Bytes, Batches: p.batches(),
		ByState: p.ByState, ByDestination: []destinationCount{},
		Protected: protectedJSON{p.counted(p.InFlight), p.counted(p.NotTerminal), p.counted(p.Dead), p.Window},
		Compared:  comparedJSON{render.Seconds(p.Current), p.CurrentCandidates, p.Candidates - p.CurrentCandidates},
	}
	if p.Candidates > 0 {
		doc.Oldest, doc.Newest = instantOrNull(p.Oldest), instantOrNull(p.Newest)
	}
	if d := p.takes(); d > 0 {
		s := render.Seconds(d)
		doc.Seconds = &s
	}
	for _, d := range p.ByDestination {
		doc.ByDestination = append(doc.ByDestination, destinationCount{d.Destination, d.Count, render.Instant(d.Oldest)})
	}
	return doc
}
