package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s with everything that a terminal, a log reader or an eye could
// be misled by replaced by a mark: \n, \r, \t and \x1b for ASCII controls, \u202e
// for other controls, bidirectional overrides and invisible characters, \xff for a
// byte that is no UTF-8. Emoji, wide and combining characters stay.
//
// A backslash stays as it is, so that ordinary text reads as it was written; the
// marks are for people and cannot be turned back into the text.
func Visible(s string) string {
	start := strings.IndexFunc(s, hiddenOrInvalid)
	if start < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:start])
	for i := start; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			b.WriteString(mark(r))
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// hiddenOrInvalid also holds for U+FFFD, which IndexFunc reports for a byte that is
// no UTF-8; one that was really written only costs the slow path.
func hiddenOrInvalid(r rune) bool { return r == utf8.RuneError || hidden(r) }

// hidden tells whether r has no glyph of its own: C0 and C1 controls, format
// characters (bidirectional, zero-width, tags), line and paragraph separators,
// fillers, and variation selectors but the two that emoji need.
func hidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	case r < 0x7f, r == 0xfe0e, r == 0xfe0f:
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func mark(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r <= 0x7f:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
