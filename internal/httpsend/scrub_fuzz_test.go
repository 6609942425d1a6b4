package httpsend

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// FuzzScrub: nothing that was to be taken out is left between the marks, of whatever
// text and payload; what is there stood in the text in that order; and the result is not
// longer than so many marks.
func FuzzScrub(f *testing.F) {
	f.Add("a jane jane@x b", `{"a":"jane","b":["jane@x"]}`, "token-1", true)
	f.Add("[redacted] redacted ", `["redacted","edac","[redacted]"]`, "redacted", false)
	f.Add("ababababa", `["aba","ababa","baba"]`, "abab", true)
	f.Add("éa é", `["é\u00e9\/x"]`, "é\xff\xff", true)
	f.Add("row 12345 Zoe", "id,12345,Zoe", "/hook/x", true)
	f.Fuzz(func(t *testing.T, text, body, secret string, more bool) {
		if len(text) > 5000 || len(body) > 5000 {
			return
		}
		s := &scrubber{body: []byte(body), json: json.Valid([]byte(body))}
		s.addSecret(secret)
		got := s.scrub(text, more)
		if len(got) > 4*len(text)+len(redacted) {
			t.Fatalf("%d bytes became %d", len(text), len(got))
		}
		pieces := strings.Split(got, redacted)
		for rest := strings.ReplaceAll(text, redacted, ""); ; {
			if len(pieces) == 0 {
				break
			}
			at := strings.Index(rest, pieces[0])
			if at < 0 && !strings.Contains(text, redacted) {
				t.Fatalf("%q of %q is not in %q", pieces[0], got, text)
			}
			rest, pieces = rest[max(at, 0):], pieces[1:]
		}
		pieces = strings.Split(got, redacted)
		s.each(func(what []byte, word bool) {
			if len(what) < minSecret {
				return
			}
			for i, piece := range pieces {
				if !word && strings.Contains(piece, string(what)) {
					t.Fatalf("%q is left of %q: %q", what, text, got)
				}
				if word && slices.Contains(strings.Fields(piece), string(what)) && alone(pieces, i) {
					t.Fatalf("the word %q is left of %q: %q", what, text, got)
				}
			}
			if n := min(len(what)-1, len(text)); more && n >= minSecret && strings.HasSuffix(text, string(what[:n])) && strings.HasSuffix(got, string(what[:n])) {
				t.Fatalf("the beginning of %q is left of %q: %q", what, text, got)
			}
		})
		if !s.json && strings.Contains(text, " "+secret+" ") && strings.Contains(body, secret) && len(secret) >= minSecret && slices.Contains(pieces, secret) {
			t.Fatalf("%q is left of %q: %q", secret, text, got)
		}
	})
}

// alone says that the piece's words ended where they do now in the text, too: a mark may
// have been put into the middle of one.
func alone(pieces []string, i int) bool { return len(pieces) == 1 || i == 0 && pieces[0] == "" }
