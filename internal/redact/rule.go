package redact

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// Rule selects values by their place.
//
// It is parsed by a library; the walk is our own (walk). The library selects from
// decoded values, where the second of two members of one name, the order and the
// spelling are lost, and it needs the end of the text.
type Rule struct {
	text     string
	segments []*spec.Segment
}

// Parse reads a rule. Its error names the rule and the position. Filters are refused:
// what they cost is the receiver's to choose.
func Parse(text string) (Rule, error) {
	path, err := jsonpath.Parse(text)
	if err != nil {
		return Rule{}, fmt.Errorf("%q is no JSONPath: %s", text, strings.TrimPrefix(err.Error(), jsonpath.ErrPathParse.Error()+": "))
	}
	r := Rule{text: text, segments: path.Query().Segments()}
	for _, s := range r.segments {
		if slices.ContainsFunc(s.Selectors(), isFilter) {
			return Rule{}, fmt.Errorf("%q: a filter (?) is not supported; name the members, as in $.items[*].email", text)
		}
	}
	return r, nil
}

func isFilter(s spec.Selector) bool {
	_, filter := s.(*spec.FilterSelector)
	return filter
}

// String is the rule as it was written.
func (r Rule) String() string { return r.text }

// Rules select what any of them selects.
type Rules []Rule

// Mark stands for what was taken out; for a value in quotes.
const Mark = "[redacted]"

// Apply answers text with a mark in the place of every value that is selected; cut says
// that it ends before text does.
//
// What is not JSON as a whole is read from its first bracket on, for as long as it is
// JSON, and what follows is left out. Where nothing is JSON there, but there are
// brackets or quotes, only what stands before them is kept, and a mark. A text without
// any, and of one byte or more for each letter, comes back as it is.
func (rs Rules) Apply(text []byte) (shown []byte, cut bool) {
	if wide(text) {
		return []byte(Mark), true
	}
	from := bytes.IndexAny(text, `{["`)
	if from < 0 || text[from] == '"' { // prose, or a value that holds no others
		switch doc, form := read(text); {
		case form == whole:
			return rs.walk(text, doc), false
		case from < 0:
			return text, false
		}
	} else if doc, form := read(text[from:]); form != none {
		return append(bytes.Clone(text[:from]), rs.walk(text[from:], doc)...), form == broken
	}
	return append(bytes.Clone(text[:from]), Mark...), true
}

// wide says whether text is, or may be, UTF-16 or UTF-32, where nothing is found by its
// bytes.
func wide(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) || 4*bytes.Count(text, []byte{0}) > len(text)
}
