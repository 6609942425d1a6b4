package redact

import (
	"fmt"
	"slices"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// Rule selects values by their place.
//
// It is parsed by a library, which also judges filters; the walk is our own (walk). The
// library selects from decoded values, where the second of two members of one name, the
// order and the spelling are lost, and it needs the end of the text.
type Rule struct {
	text     string
	segments []*spec.Segment
}

// Parse reads a rule. Its error names the rule and the position.
func Parse(text string) (Rule, error) {
	path, err := jsonpath.Parse(text)
	if err != nil {
		return Rule{}, fmt.Errorf("%q is no JSONPath: %s", text, strings.TrimPrefix(err.Error(), jsonpath.ErrPathParse.Error()+": "))
	}
	return Rule{text: text, segments: path.Query().Segments()}, nil
}

// String is the rule as it was written.
func (r Rule) String() string { return r.text }

// filters says whether it asks what values hold, not only where they stand.
func (r Rule) filters() bool {
	return slices.ContainsFunc(r.segments, func(s *spec.Segment) bool {
		return slices.ContainsFunc(s.Selectors(), func(sel spec.Selector) bool {
			_, filter := sel.(*spec.FilterSelector)
			return filter
		})
	})
}

// Rules select what any of them selects.
type Rules []Rule

// Mark stands for a value that was taken out, in quotes.
const Mark = "[redacted]"

// Form is how much of a text is JSON.
type Form int

// The forms.
const (
	None   Form = iota // no JSON: nothing of it was judged
	Broken             // JSON up to some place, where it breaks off or becomes something else
	Whole              // one JSON value
)

// Apply answers text with a mark in the place of every value that is selected. Of a text
// that is broken it shows what stands before the break. A text of form None comes back
// as it is.
func (rs Rules) Apply(text []byte) (shown []byte, form Form) {
	doc, form := read(text)
	if form == None {
		return text, form
	}
	w := newWalk(rs, text, doc)
	w.document(doc)
	return w.shown(), form
}
