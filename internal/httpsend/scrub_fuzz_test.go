package httpsend

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzScrub holds every result against what plain loops find: what is to be taken out is
// gone, wherever it overlaps, nothing else is, and the result is not longer than so many
// marks.
func FuzzScrub(f *testing.F) {
	f.Add("a jane jane@x b", `{"a":"jane","b":["jane@x"]}`, "token-1", true)
	f.Add("[redacted] redacted ", `["redacted","edac","[redacted]"]`, "redacted", false)
	f.Add("ababababa", `["aba","ababa","baba"]`, "abab", true)
	f.Add("éa é", `["é\u00e9\/x"]`, "é\xff\xff", true)
	f.Add("token of abcabcabd-abcabcab", `["abcabcabcabcabd"]`, "-abcabcab!", true)
	f.Add("an aaabcd", `["aabcdef"]`, "", true)
	f.Add("row 12345 Zoe", "id,12345,Zoe", "/hook/x", true)
	f.Add(strings.Repeat("-", 100), `["---","----","-----","------","-------"]`, "--------", false)
	f.Fuzz(func(t *testing.T, text, body, secret string, more bool) {
		if len(text) > 300 || len(body) > 600 {
			return // plain loops take long
		}
		s := &scrubber{body: []byte(body), json: json.Valid([]byte(body))}
		s.addSecret(secret)
		got := s.scrub(text, more)
		if len(got) > 4*len(text)+len(redacted) {
			t.Fatalf("%d bytes became %d", len(text), len(got))
		}
		if want, places := s.plainly(text, more); got != want && (got != redacted || places <= 4*len(text)+64 && s.json) {
			t.Fatalf("%q\n got %q\nwant %q", text, got, want)
		}
	})
}

// plainly is scrub as one would write it without a thought of its cost. places is how
// much there was to find.
func (s *scrubber) plainly(text string, more bool) (rest string, places int) {
	f := newFinder([]byte(text))
	gone, end := make([]int, len(text)), len(text) // by place, how far what is gone there goes
	s.each(func(what []byte, word bool) {
		if len(what) < minText {
			return
		}
		for i := range len(text) {
			if strings.HasPrefix(text[i:], string(what)) {
				if places++; !word || f.parts(i) && f.parts(i+len(what)) {
					gone[i] = max(gone[i], i+len(what))
				}
			}
		}
		for n := minSecret; more && n < len(what) && n <= len(text); n++ {
			if strings.HasSuffix(text, string(what[:n])) {
				end = min(end, len(text)-n)
			}
		}
	})
	if !s.json {
		f.words(func(from, to int) {
			if bytes.Contains(s.body, f.text[from:to]) {
				gone[from] = max(gone[from], to)
			}
		})
	}
	for i := 0; i < end; {
		if gone[i] == 0 {
			rest += text[i : i+1]
			i++
			continue
		}
		rest += redacted
		for to := i + 1; i < to && i < len(text); i++ {
			to = max(to, gone[i])
		}
	}
	return rest, places
}
