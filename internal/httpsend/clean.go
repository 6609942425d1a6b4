package httpsend

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxMessage = 512          // bytes
	maxExcerpt = 2<<10 - 16   // bytes, so that 2 KiB hold it with its mark
	replaced   = "\uFFFD"     // stands for what cannot be stored or shown
	cutMark    = " [cut]"     // the text goes on
	cleanMark  = " [cleaned]" // something was replaced
	bothMark   = " [cleaned, cut]"
)

// clean makes text from outside fit for a database column and a line of a log: valid
// UTF-8, no control characters, at most limit bytes before the mark that says that it
// was cleaned or cut. cut says that the text had been longer already. It is never cut
// inside a letter. Line ends and tabs become spaces and are not worth a mark; a run of
// what cannot be kept becomes one U+FFFD. So does the escape \u0000, which PostgreSQL's
// jsonb refuses: an answer in JSON stays one that can be cast and queried.
func clean(text string, limit int, cut bool) string {
	var b strings.Builder
	b.Grow(min(len(text), limit) + len(bothMark))
	cleaned, gap := false, false
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		piece, keep := text[:size], true
		switch {
		case r == utf8.RuneError && size == 1 && cut && !utf8.FullRuneInString(text):
			keep, size, piece = false, len(text), "" // the letter that the first cut went through
		case r == utf8.RuneError && size == 1:
			keep = false
		case r == '\n' || r == '\r' || r == '\t':
			piece = " "
		case unicode.IsControl(r):
			keep = false
		case strings.HasPrefix(text, `\u0000`):
			keep, size = false, len(`\u0000`)
		}
		text = text[size:]
		if !keep {
			if piece == "" || gap {
				continue
			}
			piece, cleaned = replaced, true
		}
		gap = !keep
		if b.Len()+len(piece) > limit {
			cut = true
			break
		}
		b.WriteString(piece)
	}
	return strings.TrimSpace(b.String()) + mark(cleaned, cut)
}

func mark(cleaned, cut bool) string {
	switch {
	case cleaned && cut:
		return bothMark
	case cleaned:
		return cleanMark
	case cut:
		return cutMark
	}
	return ""
}
