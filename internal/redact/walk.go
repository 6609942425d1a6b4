package redact

import (
	"slices"

	"github.com/theory/jsonpath/spec"
)

// walk goes through a document once, with all rules at the same time.
type walk struct {
	segments []segment // of all rules, one after the other
	text     []byte
	out      []byte
	copied   int      // how much of text is in out, or was replaced
	open     [][]bool // by depth: the segments that are held against what is below a value
}

// segment is one of a rule; the next one of the same rule follows it.
type segment struct {
	*spec.Segment
	last bool
}

func (rs Rules) walk(text []byte, doc document) []byte {
	w := &walk{text: text, out: make([]byte, 0, doc.end+len(Mark))}
	var first []int
	for _, r := range rs {
		if len(r.segments) == 0 { // $ alone
			w.replace(doc.root)
			return append(w.out, text[w.copied:doc.end]...)
		}
		first = append(first, len(w.segments))
		for i, s := range r.segments {
			w.segments = append(w.segments, segment{s, i+1 == len(r.segments)})
		}
	}
	for _, i := range first {
		w.at(0)[i] = true
	}
	w.below(&doc.root, 0)
	return append(w.out, text[w.copied:doc.end]...)
}

func (w *walk) at(depth int) []bool {
	if depth == len(w.open) {
		w.open = append(w.open, make([]bool, len(w.segments)))
	}
	return w.open[depth]
}

// below holds the segments of this depth against the values in v.
func (w *walk) below(v *value, depth int) {
	at, next := w.at(depth), w.at(depth+1)
	for i := range v.below {
		clear(next)
		if w.step(v, i, at, next) {
			w.replace(v.below[i])
		} else if v.below[i].kind != 0 {
			w.below(&v.below[i], depth+1)
		}
	}
}

// step says whether what stands at i in v is selected, and else which segments go on
// below it.
func (w *walk) step(v *value, i int, at, next []bool) bool {
	for n, on := range at {
		if !on {
			continue
		}
		s := w.segments[n]
		if s.IsDescendant() {
			next[n] = true
		}
		if !slices.ContainsFunc(s.Selectors(), func(sel spec.Selector) bool { return v.selected(sel, i) }) {
			continue
		}
		if s.last {
			return true
		}
		next[n+1] = true
	}
	return false
}

// selected says whether a selector takes what stands at i in v.
func (v *value) selected(sel spec.Selector, i int) bool {
	switch sel := sel.(type) {
	case spec.Name:
		return v.kind == '{' && v.names[i] == string(sel)
	case spec.Index:
		return v.kind == '[' && v.isAt(int(sel), i)
	case spec.SliceSelector:
		return v.kind == '[' && v.isIn(sel, i)
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
