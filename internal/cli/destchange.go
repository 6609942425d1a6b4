package cli

import (
	"fmt"
	"strings"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// changeJSON is the contract of what apply and remove did to one destination.
type changeJSON struct {
	Name    string                 `json:"name"`
	Action  work.DestinationAction `json:"action"`
	Changes []fieldChangeJSON      `json:"changes"`
	Needed  *neededJSON            `json:"needed,omitempty"` // why it was kept
}

type fieldChangeJSON struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

type neededJSON struct {
	Scheduled int64 `json:"scheduled"`
	InFlight  int64 `json:"in_flight"`
	Stuck     int64 `json:"stuck"`
	Dead      int64 `json:"dead"`
}

func changeView() render.View[work.DestinationChange] {
	return render.View[work.DestinationChange]{
		Columns: []render.Column[work.DestinationChange]{
			{Header: "ACTION", Value: func(c work.DestinationChange) string { return string(c.Action) }},
			{Header: "NAME", Value: func(c work.DestinationChange) string { return c.Name }},
			{Header: "CHANGES", Value: changeText},
		},
		JSON: func(c work.DestinationChange) any {
			doc := changeJSON{Name: c.Name, Action: c.Action, Changes: []fieldChangeJSON{}}
			for _, f := range c.Fields {
				doc.Changes = append(doc.Changes, fieldChangeJSON(shownChange(f)))
			}
			if c.Action == work.DestinationKept {
				doc.Needed = &neededJSON{c.Load.Scheduled, c.Load.InFlight, c.Load.Stuck, c.Load.Dead}
			}
			return doc
		},
		Name: func(c work.DestinationChange) string { return c.Name },
	}
}

func shownChange(f work.FieldChange) work.FieldChange {
	if f.Field != work.DestinationURL {
		return f
	}
	if f.From != "" {
		f.From = shownURL(f.From, false)
	}
	f.To = shownURL(f.To, false)
	return f
}

func changeText(c work.DestinationChange) string {
	if c.Action == work.DestinationKept {
		return "still needed: " + needs(c.Load)
	}
	parts := make([]string, len(c.Fields))
	for i, f := range c.Fields {
		f = shownChange(f)
		switch {
		case f.From == f.To:
			parts[i] = fmt.Sprintf("%s: %s (path or query)", f.Field, f.To)
		case c.Action == work.DestinationCreated:
			parts[i] = fmt.Sprintf("%s: %s", f.Field, f.To)
		default:
			parts[i] = fmt.Sprintf("%s: %s → %s", f.Field, orDash(f.From), orDash(f.To))
		}
	}
	return strings.Join(parts, "; ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// needs says what keeps a destination.
func needs(l work.DestinationLoad) string {
	var parts []string
	for _, n := range []struct {
		count int64
		word  string
	}{{l.Scheduled, "scheduled"}, {l.InFlight + l.Stuck, "leased"}, {l.Dead, "dead"}} {
		if n.count > 0 {
			parts = append(parts, render.Count(n.count)+" "+n.word)
		}
	}
	if len(parts) == 0 {
		return "it is being enqueued to"
	}
	return strings.Join(parts, ", ")
}
