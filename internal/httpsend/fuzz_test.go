package httpsend

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzClean: what is cleaned is valid, bounded, without control characters, never cut
// inside a letter, says that it was cut, and stays as it is when cleaned again. What
// needs no cleaning stays as it is.
func FuzzClean(f *testing.F) {
	f.Add("a\x00b", 10, false)
	f.Add("é\xff\xc3", 3, true)
	f.Add(`\u0000\u0000`, 5, false)
	f.Add("plain é 日本語 👍🏽", 40, false)
	f.Add("👍🏽", 5, false)
	f.Add("\u009b2J\x1b]52;c;\a", 9, true)
	f.Fuzz(func(t *testing.T, text string, limit int, cut bool) {
		limit = min(max(limit, 0), 1<<12)
		got := clean(text, limit, cut)
		if !utf8.ValidString(got) || len(got) > limit+len(bothMark) {
			t.Fatalf("%q (%d bytes)", got, len(got))
		}
		if strings.ContainsFunc(got, unicode.IsControl) || strings.Contains(got, `\u0000`) {
			t.Fatalf("control characters in %q", got)
		}
		if cut && !strings.HasSuffix(got, cutMark) && !strings.HasSuffix(got, bothMark) {
			t.Fatalf("%q does not say that it was cut", got)
		}
		if again := clean(got, len(got), false); again != strings.TrimSpace(got) {
			t.Fatalf("%q became %q", got, again)
		}
		needed := strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, `\u0000`) || !utf8.ValidString(text) || len(text) > limit
		if !needed && got != strings.TrimSpace(text)+mark(false, cut) {
			t.Fatalf("%q became %q", text, got)
		}
		if kept := strings.TrimSuffix(got, cutMark); utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) &&
			!strings.Contains(text, `\u0000`) && !strings.HasPrefix(strings.TrimSpace(text), strings.TrimSpace(kept)) {
			t.Fatalf("%q was cut to %q", text, got)
		}
	})
}

// FuzzRetryAfter: a wait is never negative, never beyond its bound, and never shorter
// than what was asked for, in seconds or by a date.
func FuzzRetryAfter(f *testing.F) {
	const now = 1772359200 // 2026-03-01 10:00:00
	for _, s := range [][2]string{
		{"120", ""},
		{"0", ""},
		{"-5", ""},
		{"1.5", ""},
		{"soon", ""},
		{"9223372037", ""},
		{"99999999999999999999999", ""},
		{" 7 ", "x"},
		{"Sun, 01 Mar 2026 10:02:00 GMT", "Sun, 01 Mar 2026 10:00:00 GMT"},
		{"Sunday, 01-Mar-26 10:02:00 GMT", ""},
		{"Sun Mar  1 10:02:00 2026", "no date"},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT"},
	} {
		f.Add(s[0], s[1], int64(now), int64(0))
	}
	f.Fuzz(func(t *testing.T, value, date string, second, nano int64) {
		now := time.Unix(second%(1<<40), nano)
		got := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, func() time.Time { return now })
		if got < 0 || got > maxRetryAfter {
			t.Fatalf("%q with Date %q at %s: %s", value, date, now, got)
		}
		value = strings.TrimSpace(value)
		if asked, ok := new(big.Int).SetString(value, 10); ok && value[0] != '-' && value[0] != '+' {
			if bound := big.NewInt(int64(maxRetryAfter / time.Second)); asked.Cmp(bound) > 0 {
				asked = bound
			}
			if want := time.Duration(asked.Int64()) * time.Second; got != want {
				t.Fatalf("%q: %s, want %s", value, got, want)
			}
			return
		}
		until, err := http.ParseTime(value)
		if err != nil {
			if got != 0 {
				t.Fatalf("%q: %s", value, got)
			}
			return
		}
		from, err := http.ParseTime(date)
		if err != nil {
			from = now
		}
		if want := min(max(until.Sub(from), 0), maxRetryAfter); got < want || got > want+time.Second {
			t.Fatalf("%q with Date %q at %s: %s, want %s", value, date, now, got, want)
		}
	})
}
