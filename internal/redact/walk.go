package redact

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/theory/jsonpath/spec"
)

// walk goes through a document once, with all rules at the same time.
type walk struct {
	rules   Rules
	text    []byte
	end     int
	out     []byte
	copied  int  // how much of text is in out, or was replaced
	unsure  bool // what values hold is not known, so that each filter selects
	decoded any  // the document, where a filter has to look at it
}

// place is a segment of a rule that is to be held against what is below a value.
type place struct{ rule, segment int }

func newWalk(rs Rules, text []byte, doc document) *walk {
	w := &walk{rules: rs, text: text, end: doc.end, out: make([]byte, 0, doc.end+len(Mark))}
	if !slices.ContainsFunc(rs, Rule.filters) {
		return w
	}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte(byteOrderMark))))
	d.UseNumber()
	// Decoded, one of two members with the same name hides the other.
	w.unsure = doc.root.broken || doc.root.repeats() || d.Decode(&w.decoded) != nil
	return w
}

// repeats says whether an object has two members of one name.
func (v *value) repeats() bool {
	seen := make(map[string]bool, len(v.names))
	for _, name := range v.names {
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return slices.ContainsFunc(v.below, func(b value) bool { return b.repeats() })
}

func (w *walk) document(doc document) {
	var at []place
	for i, r := range w.rules {
		if len(r.segments) == 0 { // $ alone
			w.replace(doc.root)
			return
		}
		at = append(at, place{rule: i})
	}
	w.below(&doc.root, w.decoded, at)
}

// below holds the segments at against the values in v.
func (w *walk) below(v *value, decoded any, at []place) {
	for i := range v.below {
		inner := inside(decoded, v, i)
		var next []place
		selected := false
		for _, p := range at {
			segments := w.rules[p.rule].segments
			s := segments[p.segment]
			if s.IsDescendant() {
				next = add(next, p)
			}
			if !slices.ContainsFunc(s.Selectors(), func(sel spec.Selector) bool { return w.selects(sel, v, i, inner) }) {
				continue
			}
			if p.segment+1 == len(segments) {
				selected = true
				break
			}
			next = add(next, place{p.rule, p.segment + 1})
		}
		if selected {
			w.replace(v.below[i])
		} else {
			w.below(&v.below[i], inner, next)
		}
	}
}

// inside is the decoded form of what stands at i in v, nil where it isn't known.
func inside(decoded any, v *value, i int) any {
	switch d := decoded.(type) {
	case map[string]any:
		return d[v.names[i]]
	case []any:
		return d[i]
	}
	return nil
}

func add(places []place, p place) []place {
	if slices.Contains(places, p) {
		return places
	}
	return append(places, p)
}

// selects says whether a selector takes what stands at i in v.
func (w *walk) selects(sel spec.Selector, v *value, i int, inner any) bool {
	switch sel := sel.(type) {
	case spec.Name:
		return v.kind == '{' && v.names[i] == string(sel)
	case spec.Index:
		return v.kind == '[' && v.isAt(int(sel), i)
	case spec.SliceSelector:
		return v.kind == '[' && v.isIn(sel, i)
	case *spec.FilterSelector:
		return w.unsure || sel.Eval(inner, w.decoded)
	}
	return true // the wildcard
}

// isAt says whether i is the place that an index means. Of a list without an end any
// place may be the n-th from there.
func (v *value) isAt(index, i int) bool {
	if index < 0 {
		return v.broken || i == len(v.below)+index
	}
	return i == index
}

func (v *value) isIn(s spec.SliceSelector, i int) bool {
	step := s.Step()
	if v.broken && (step < 0 || s.Start() < 0 || s.End() < 0) {
		return true
	}
	low, high := s.Bounds(len(v.below)) // of a broken list: as if it ended here, which leaves nothing out
	switch {
	case step > 0:
		return low <= i && i < high && (i-low)%step == 0
	case step < 0:
		return low < i && i <= high && (high-i)%-step == 0
	}
	return false
}

// replace puts the mark in the place of v.
func (w *walk) replace(v value) {
	if v.start == v.end {
		return // the text ends before it
	}
	w.out = append(w.out, w.text[w.copied:v.start]...)
	w.out = append(w.out, '"')
	w.out = append(w.out, Mark...)
	w.out = append(w.out, '"')
	w.copied = v.end
}

// shown is the document when all of it was walked.
func (w *walk) shown() []byte {
	return append(w.out, w.text[w.copied:w.end]...)
}
