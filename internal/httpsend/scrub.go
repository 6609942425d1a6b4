package httpsend

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

const (
	redacted  = "[redacted]"
	maxParsed = 1 << 20 // bytes of a request's body that are taken apart for scrubbing
	minSecret = 4       // bytes; what is shorter would take texts apart
)

// scrubber takes out of an answer what must not be kept: receivers quote the request
// in their error pages, with the token in its path and the person in its payload.
//
// Found are the URL's path and query, whole and in parts that look like a token; header
// values, the proxy's too, what stands behind Bearer and Basic, and the password in the
// latter; keys; and the values (not the names) in the payload's JSON. What the receiver has changed is not
// found: translated, masked, or a part of a longer text.
//
// Its cost is bounded by the lengths of both (finder): it runs when the request's time
// limit is no longer looked at.
type scrubber struct {
	secrets []string // wherever they stand
	id      string   // of the delivery, which may be quoted
	body    []byte
	json    bool // the body's values are taken out; else all its words
}

func newScrubber(r Request, t *target) *scrubber {
	s := &scrubber{id: r.DeliveryID, body: r.Body}
	s.json = len(r.Body) <= maxParsed && json.Valid(r.Body)
	s.addURL(t.url)
	s.addHeader(t.secret)
	for name, value := range r.Headers {
		if !strings.EqualFold(name, "Content-Type") {
			s.addHeader(value)
		}
	}
	for _, k := range r.Keys {
		s.addSecret(strings.TrimPrefix(strings.TrimSpace(string(k)), keyPrefix))
	}
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
		value, after, ok := strings.Cut(pair, "=")
		if ok {
			value = after
		}
		s.addSecret(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			s.addSecret(plain)
		}
	}
}

// tokenLike leaves out the words that paths are made of: hooks, api, v1.
func tokenLike(part string) bool {
	return len(part) >= 12 || len(part) >= minSecret && strings.ContainsAny(part, "0123456789")
}

func (s *scrubber) addHeader(value string) {
	s.addSecret(value)
	for pair := range strings.SplitSeq(value, ";") { // of a cookie, say
		if _, part, ok := strings.Cut(pair, "="); ok && tokenLike(strings.TrimSpace(part)) {
			s.addSecret(strings.TrimSpace(part))
		}
	}
	scheme, token, ok := strings.Cut(strings.TrimSpace(value), " ")
	if !ok {
		return
	}
	token = strings.TrimSpace(token)
	s.addSecret(strings.TrimRight(token, "=")) // base64 is quoted with its padding or without
	if !strings.EqualFold(scheme, "Basic") {
		return
	}
	// Receivers take it apart before they complain about it.
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(token, "="))
	if err != nil {
		return
	}
	s.addSecret(string(plain))
	_, password, _ := strings.Cut(string(plain), ":")
	s.addSecret(password)
}

func (s *scrubber) addSecret(secret string) {
	if len(secret) >= minSecret {
		s.secrets = append(s.secrets, secret)
		s.secrets = append(s.secrets, otherForms(secret)...)
	}
}

// otherForms are how text is written between the quotes of JSON, where that differs.
func otherForms(text string) (forms []string) {
	special, slash := inJSON(text)
	if special {
		if b, err := json.Marshal(text); err == nil {
			forms = append(forms, string(b[1:len(b)-1]))
		}
		if !isASCII(text) {
			forms = append(forms, inASCII(text))
		}
	}
	if slash {
		for _, form := range append(forms, text) {
			forms = append(forms, strings.ReplaceAll(form, "/", `\/`)) // as many write it
		}
	}
	return forms
}

// inASCII is how many libraries write JSON: with an escape for each letter beyond ASCII
// (RFC 8259, section 7).
func inASCII(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r <= '~':
			b.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// inJSON says whether some of text is, or may be, written otherwise in JSON, and whether
// there is a slash, which may be, too.
func inJSON[T string | []byte](text T) (special, slash bool) {
	for i := range len(text) {
		switch c := text[i]; c {
		case '/':
			slash = true
		case '"', '\\', '<', '>', '&':
			special = true
		default:
			special = special || c < ' ' || c > '~'
		}
	}
	return special, slash
}

// scrub answers text without them. more says that the answer went on, so that its end
// may hold the beginning of one.
func (s *scrubber) scrub(text string, more bool) string {
	f := newFinder([]byte(text))
	s.each(func(what []byte, word bool) {
		f.take(what, word)
		if more {
			f.drop(what)
		}
	})
	if !s.json {
		f.takeWords(s.body)
	}
	return f.rest()
}

// holds says whether any of them is in a text that may be written in other capitals.
func (s *scrubber) holds(text string) bool {
	f := newFinder(bytes.ToLower([]byte(text)))
	s.each(func(what []byte, word bool) { f.take(bytes.ToLower(what), word) })
	if !s.json {
		f.takeWords(bytes.ToLower(s.body))
	}
	return f.any
}

// each calls look for all that is to be found, in every form; word says that it counts
// only where it does not go on as a longer one.
func (s *scrubber) each(look func(what []byte, word bool)) {
	for _, secret := range s.secrets {
		look([]byte(secret), false)
	}
	if !s.json {
		return
	}
	eachValue(s.body, func(value []byte) {
		if string(value) != s.id {
			look(value, true)
		}
	})
}
