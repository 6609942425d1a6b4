package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxDepth bounds how deep values may be nested; a text breaks off there.
const maxDepth = 1000

// value is one JSON value and where in the text it stands.
type value struct {
	start, end int // end is the text's own where the value is broken
	broken     bool
	kind       byte     // '{', '[', or 0
	names      []string // of an object's members
	below      []value  // values of an object's members, or items of a list
}

// document is a text taken apart.
type document struct {
	root value
	end  int // of what may be shown
}

// reader takes a text apart by the tokens of encoding/json, which says where each one
// ends.
type reader struct {
	text   []byte
	tokens *json.Decoder
	end    int  // of what may be shown, once the text has broken off
	sure   bool // that it is meant to be JSON
}

// form is how much of a text is JSON.
type form int

const (
	none   form = iota // none that one could be sure of
	broken             // JSON up to some place, where it breaks off or becomes something else
	whole              // one JSON value
)

// read takes text apart. Prose that happens to begin with a bracket is no JSON.
func read(text []byte) (document, form) {
	r := &reader{text: text, end: len(text), tokens: json.NewDecoder(bytes.NewReader(text))}
	r.tokens.UseNumber() // any number, also one too large for a float
	t := r.next()
	_, container := t.token.(json.Delim)
	if t.broken {
		return document{}, none
	}
	doc := document{root: r.value(t, 0)}
	doc.end = r.end
	if doc.root.broken {
		if r.end < len(text) && !r.sure {
			return document{}, none
		}
		return doc, broken
	}
	if rest := r.next(); rest.broken && rest.start == len(text) {
		return doc, whole
	}
	if !container {
		return document{}, none // prose that begins with a number or a quote
	}
	doc.end = doc.root.end
	return doc, broken
}

// token is a token and where it stands. One that is broken is what is left of the text
// then: a part of a token, or nothing.
type token struct {
	token      json.Token
	start, end int
	broken     bool
}

func (r *reader) next() token {
	from := r.offset()
	read, err := r.tokens.Token()
	t := token{token: read, end: r.offset()}
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			r.end = from // this is no JSON any more
		}
		t = token{end: r.end, broken: true}
	}
	// What parts tokens comes before the token.
	t.start = t.end - len(bytes.TrimLeft(r.text[from:t.end], " \t\r\n,:"))
	_, isString := read.(string)
	r.sure = r.sure || isString
	return t
}

func (r *reader) offset() int { return int(r.tokens.InputOffset()) }

// value goes on from its first token.
func (r *reader) value(t token, depth int) value {
	v := value{start: t.start, end: t.end, broken: t.broken}
	if open, ok := t.token.(json.Delim); ok && !t.broken {
		v.kind = byte(open)
		r.fill(&v, depth+1)
	}
	return v
}

// fill reads what is in an object or a list, to its end.
func (r *reader) fill(v *value, depth int) {
	for !v.broken {
		t := r.next()
		if close, ok := t.token.(json.Delim); ok && (close == '}' || close == ']') {
			v.end = t.end
			return
		}
		if depth > maxDepth {
			r.end, r.sure = t.start, true
			t = token{start: t.start, end: t.start, broken: true}
		}
		if v.kind == '{' && !t.broken {
			v.names = append(v.names, t.token.(string))
			t = r.next()
		} else if v.kind == '{' {
			v.end, v.broken = r.end, true // in a name
			return
		}
		below := r.value(t, depth)
		v.below = append(v.below, below)
		v.end, v.broken = r.end, below.broken
	}
}
