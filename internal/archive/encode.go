package archive

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

// Rows are put together by hand: JSON is most of what archiving costs, and the library
// takes more than twice as long for it (BenchmarkEncode has both).

// appendRow appends a as one line. The error says what of it cannot be kept.
func appendRow(b []byte, a *work.Archived) ([]byte, error) {
	if err := a.Check(); err != nil {
		return b, err
	}
	w := row{b: b}
	w.text(`{"delivery_id":`, a.DeliveryID)
	w.text(`,"destination":`, a.Destination)
	w.text(`,"tenant":`, a.Tenant)
	w.text(`,"subject":`, a.Subject)
	w.text(`,"event_type":`, a.EventType)
	w.text(`,"event_version":`, a.EventVersion)
	w.text(`,"event_id":`, a.EventID)
	w.time(`,"event_at":`, a.EventAt)
	w.time(`,"not_after":`, a.NotAfter)
	w.orNull(`,"body":`, string(a.Body))
	w.time(`,"created_at":`, a.CreatedAt)
	w.time(`,"finished_at":`, a.FinishedAt)
	w.text(`,"state":`, string(a.State))
	w.number(`,"generation":`, a.Generation)
	w.number(`,"attempts":`, a.Attempts)
	w.orNull(`,"class":`, string(a.Class))
	w.status(a.Status)
	w.orNull(`,"reason":`, string(a.Reason))
	w.orNull(`,"fingerprint":`, a.Fingerprint)
	w.payload(a.Payload)
	w.history(a.History)
	w.b = append(w.b, '}', '\n')
	if w.bad != "" {
		return w.b, fmt.Errorf("%s: not UTF-8, or a time outside the years 0 to 9999", w.bad)
	}
	return w.b, nil
}

// row is a line under construction.
type row struct {
	b   []byte
	bad string // the first field that JSON cannot hold; "" for none
}

func (w *row) text(name, s string) {
	var ok bool
	w.b = append(w.b, name...)
	if w.b, ok = appendText(w.b, s); !ok {
		w.refuse(name)
	}
}

func (w *row) orNull(name, s string) {
	if s == "" {
		w.null(name)
		return
	}
	w.text(name, s)
}

func (w *row) null(name string) { w.b = append(append(w.b, name...), "null"...) }

func (w *row) number(name string, n int) {
	w.b = strconv.AppendInt(append(w.b, name...), int64(n), 10)
}

func (w *row) status(n int) {
	if n == 0 {
		w.null(`,"status":`)
		return
	}
	w.number(`,"status":`, n)
}

// time is in the layout of the library that it writes fastest, and then gets the fraction.
func (w *row) time(name string, t time.Time) {
	if t.IsZero() {
		w.null(name)
		return
	}
	t = t.UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		w.refuse(name)
	}
	w.b = t.AppendFormat(append(append(w.b, name...), '"'), time.RFC3339)
	w.b = append(appendFraction(w.b[:len(w.b)-len("Z")], t.Nanosecond()), 'Z', '"')
}

// payload is a JSON string where it can be. Where it would be longer than twice the
// bytes, they are mostly control characters and nothing to read.
func (w *row) payload(p []byte) {
	const name = `,"payload":`
	begin := len(w.b)
	var ok bool
	if w.b, ok = appendText(append(w.b, name...), p); ok && len(w.b)-begin <= len(name)+len(`""`)+2*len(p) {
		return
	}
	w.b = append(w.b[:begin], `,"payload_base64":"`...)
	w.b = append(base64.StdEncoding.AppendEncode(w.b, p), '"')
}

func (w *row) history(all []work.Attempt) {
	w.b = append(w.b, `,"history":[`...)
	for i := range all {
		t := &all[i]
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(appendID(append(w.b, `{"attempt_id":"`...), t.ID), '"')
		w.number(`,"generation":`, t.Generation)
		w.number(`,"attempt":`, t.Number)
		w.text(`,"worker":`, t.Worker)
		w.time(`,"started_at":`, t.StartedAt)
		w.time(`,"finished_at":`, t.FinishedAt)
		w.text(`,"class":`, string(t.Class))
		w.status(t.Status)
		w.latency(t.Latency)
		w.orNull(`,"message":`, t.Message)
		w.orNull(`,"excerpt":`, t.Excerpt)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

func (w *row) latency(d time.Duration) {
	const name = `,"latency_seconds":`
	if d == 0 {
		w.null(name)
		return
	}
	w.b = appendFraction(strconv.AppendInt(append(w.b, name...), int64(d/time.Second), 10), int(d%time.Second))
}

// appendFraction appends a part of a second to the microsecond, which is what Postgres
// keeps; to the nanosecond where there are any.
func appendFraction(b []byte, ns int) []byte {
	us := ns / 1000
	b = append(b, '.', digit(us/100_000), digit(us/10_000), digit(us/1000), digit(us/100), digit(us/10), digit(us))
	if ns %= 1000; ns != 0 {
		b = append(b, digit(ns/100), digit(ns/10), digit(ns))
	}
	return b
}

func digit(n int) byte { return byte('0' + n%10) }

// refuse remembers a field by its name between the quotes.
func (w *row) refuse(name string) {
	if w.bad == "" {
		w.bad = name[2 : len(name)-2]
	}
}

func appendID(b []byte, id uuid.UUID) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// plain are the bytes that stand for themselves in a JSON string and on a terminal.
var plain = func() (p [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		p[c] = c != '"' && c != '\\'
	}
	return p
}()

// appendText appends s as a JSON string; false if it is not UTF-8. What a terminal might
// obey, or a program take for the end of a line, stands as a \u escape: people look at
// archives with zstd -dc.
func appendText[T string | []byte](b []byte, s T) ([]byte, bool) {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		// No more than one letter's bytes: so short a string needs no memory of its own.
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r == utf8.RuneError && size == 1 {
			return b, false
		}
		if r < utf8.RuneSelf || obeyed(r) {
			b = appendEscape(append(b, s[done:i]...), r)
			done = i + size
		}
		i += size
	}
	return append(append(b, s[done:]...), '"'), true
}

func obeyed(r rune) bool {
	return r <= 0x9f || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r)
}

func appendEscape(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
