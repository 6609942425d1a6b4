package render_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"example.com/whctl/internal/render"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "seats é 日本語 👍🏽 ❤️ e\u0301", "seats é 日本語 👍🏽 ❤️ e\u0301"},
		{"empty", "", ""},
		{"backslash", `C:\new "x"`, `C:\new "x"`},
		{"line ends and tab", "a\r\nb\tc", `a\r\nb\tc`},
		{"clipboard", "\x1b]52;c;ZXZpbA==\a", `\x1b]52;c;ZXZpbA==\x07`},
		{"clear screen", "\x1b[2J", `\x1b[2J`},
		{"link", "\x1b]8;;https://x\x1b\\", `\x1b]8;;https://x\x1b\`},
		{"backspace, nul, delete", "a\b\x00\x7f", `a\x08\x00\x7f`},
		{"C1", "\u009b2J\u0085", `\u009b2J\u0085`},
		{"C1 as a lone byte", "\x9b2J", `\x9b2J`},
		{"bidi override", "exe\u202egpj\u2066\u200e\u061c", `exe\u202egpj\u2066\u200e\u061c`},
		{"zero width", "a\u200b\u200d\ufeff\u00ad", `a\u200b\u200d\ufeff\u00ad`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"tags and fillers", "\U000e0041\u3164", `\U000e0041\u3164`},
		{"hidden selectors", "a\ufe00\U000e0100", `a\ufe00\U000e0100`},
		{"broken UTF-8", "a\xff\xc3", `a\xff\xc3`},
		{"written replacement character", "a\ufffd", "a\ufffd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render.Visible(c.in); got != c.want {
				t.Errorf("Visible(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// No input may bring a byte through that a terminal obeys, and text without such
// bytes stays as it is.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[2J", "\r\nOK delivered", "\u202e\u009b\x00\x7f", "\xff\xfe", "日本語\u200b", "\\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := render.Visible(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Visible(%q) = %q is no UTF-8", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Join_Control, unicode.Zl, unicode.Zp, unicode.Cf) {
				t.Fatalf("Visible(%q) = %q lets %U through", s, got, r)
			}
		}
		if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) && !strings.ContainsFunc(s, ignorable) && got != s {
			t.Fatalf("Visible(%q) = %q changed plain text", s, got)
		}
	})
}

func ignorable(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
