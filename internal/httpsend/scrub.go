package httpsend

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	redacted  = "[redacted]"
	maxParsed = 1 << 20 // bytes of a request's body that are taken apart for scrubbing
)

// scrubber takes out of an answer what must not be kept: receivers quote the request
// in their error pages, with the token in its path and the person in its payload.
//
// Found are the URL's path and query, whole and in parts that look like a token; header
// values; keys; and the values (not the names) in the payload's JSON. What the receiver
// has changed is not found: translated, masked, or a part of a longer text.
type scrubber struct {
	secrets []string // wherever they stand, longest first
	values  []string // as whole words, longest first
	body    []byte   // that could not be taken apart: every word of it is taken out
}

func newScrubber(r Request, t *target) *scrubber {
	s := &scrubber{}
	s.addURL(t.url)
	for name, value := range r.Headers {
		if strings.EqualFold(name, "Content-Type") {
			continue
		}
		s.addSecret(value)
		if _, token, ok := strings.Cut(value, " "); ok {
			s.addSecret(token) // what stands behind Bearer or Basic
		}
	}
	for _, k := range r.Keys {
		s.addSecret(strings.TrimPrefix(strings.TrimSpace(string(k)), keyPrefix))
	}
	s.addBody(r)
	longestFirst(s.secrets)
	longestFirst(s.values)
	return s
}

func (s *scrubber) addURL(u *url.URL) {
	for _, path := range []string{u.Path, u.EscapedPath()} {
		s.addSecret(strings.TrimSuffix(path, "/"))
		for part := range strings.SplitSeq(path, "/") {
			if tokenLike(part) {
				s.addSecret(part)
			}
		}
	}
	s.addSecret(u.RawQuery)
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		s.addSecret(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			s.addSecret(plain)
		}
	}
}

// tokenLike leaves out the words that paths are made of: hooks, api, v1.
func tokenLike(part string) bool {
	return len(part) >= 12 || len(part) >= 4 && strings.ContainsAny(part, "0123456789")
}

// addSecret leaves out what is too short to be one: it would take texts apart.
func (s *scrubber) addSecret(secret string) {
	if len(secret) < 4 {
		return
	}
	forms := []string{secret}
	if escaped := inJSON(secret); escaped != secret {
		forms = append(forms, escaped)
	}
	for _, form := range forms {
		s.secrets = append(s.secrets, form)
		if escaped := strings.ReplaceAll(form, "/", `\/`); escaped != form {
			s.secrets = append(s.secrets, escaped) // as many write JSON
		}
	}
}

func (s *scrubber) addBody(r Request) {
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.UseNumber()
	var v any
	if len(r.Body) > maxParsed || d.Decode(&v) != nil {
		s.body = r.Body
		return
	}
	s.addValues(v)
	s.values = slices.DeleteFunc(s.values, func(v string) bool { return v == r.DeliveryID })
}

func (s *scrubber) addValues(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			s.addValues(inner)
		}
	case []any:
		for _, inner := range v {
			s.addValues(inner)
		}
	case string:
		if len(v) < 3 {
			return
		}
		s.values = append(s.values, v)
		if e := inJSON(v); e != v {
			s.values = append(s.values, e)
		}
	case json.Number:
		if len(v) >= 5 {
			s.values = append(s.values, v.String())
		}
	}
}

// inJSON is text as it stands between the quotes of JSON.
func inJSON(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return text
	}
	return string(b[1 : len(b)-1])
}

func longestFirst(texts []string) {
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
}

// scrub answers text without them. more says that the answer went on, so that its end
// may hold the beginning of one.
func (s *scrubber) scrub(text string, more bool) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	for _, value := range s.values {
		text = replaceWord(text, value)
	}
	if len(s.body) > 0 {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !wordy(r) && !strings.ContainsRune("@._+-", r) }) {
			if len(word) >= 4 && bytes.Contains(s.body, []byte(word)) {
				text = replaceWord(text, word)
			}
		}
	}
	if more {
		text = dropBeginning(text, s.secrets)
		text = dropBeginning(text, s.values)
	}
	return text
}

// replaceWord redacts value where it does not go on as a longer word.
func replaceWord(text, value string) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		start, end := from+i, from+i+len(value)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		first, _ := utf8.DecodeRuneInString(value)
		last, _ := utf8.DecodeLastRuneInString(value)
		if wordy(before) && wordy(first) || wordy(after) && wordy(last) {
			b.WriteString(text[from : start+1])
			from = start + 1
			continue
		}
		b.WriteString(text[from:start])
		b.WriteString(redacted)
		from = end
	}
}

func wordy(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// dropBeginning cuts off the beginning of a secret, of four bytes or more, at the end
// of text.
func dropBeginning(text string, secrets []string) string {
	for _, secret := range secrets {
		for n := min(len(secret)-1, len(text)); n >= 4; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				return text[:len(text)-n]
			}
		}
	}
	return text
}
