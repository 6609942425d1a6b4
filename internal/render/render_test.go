package render_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

var update = flag.Bool("update", false, "write the golden files anew")

type letter struct {
	ID      string `json:"delivery_id"`
	Tenant  string `json:"tenant"`
	Count   int64  `json:"count"`
	Message string `json:"message"`
	Worker  string `json:"worker"`
}

func letters() render.View[letter] {
	return render.View[letter]{
		Columns: []render.Column[letter]{
			{Header: "DELIVERY", Value: func(l letter) string { return l.ID }},
			{Header: "event_type Name", Value: func(l letter) string { return l.Tenant }},
			{Header: "COUNT", Right: true, Value: func(l letter) string { return strconv.FormatInt(l.Count, 10) }},
			{Header: "MESSAGE", Value: func(l letter) string { return l.Message }},
			{Header: "WORKER", Wide: true, Value: func(l letter) string { return l.Worker }},
		},
		JSON: func(l letter) any { return l },
		Name: func(l letter) string { return l.ID },
	}
}

// hostile are rows such as a receiver and a producer with ill will could bring about.
func hostile() []letter {
	return []letter{
		{"019ab3c4-0000-7000-8000-000000000001", `=HYPERLINK("https://x")`, 5, "401: token <expired> & gone, ask 日本語 for a new one before it is too late", "w|1"},
		{"019ab3c4-0000-7000-8000-000000000002", "\x1b]8;;https://x\x1b\\", -1500, "\x1b]52;c;ZXZpbA==\a\r\nOK delivered\b\u009b2J\u202e\x7f\x00\xff", `back\slash`},
		{"019ab3c4-0000-7000-8000-000000000003", "", 0, "", "[x](http://y) `*`"},
	}
}

func show(t *testing.T, o render.Options, rows []letter) string {
	t.Helper()
	var b bytes.Buffer
	if err := letters().Write(&b, o, rows); err != nil {
		t.Fatalf("write %+v: %v", o, err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestFormats(t *testing.T) {
	for _, format := range render.Formats() {
		golden(t, format, show(t, render.Options{Format: format}, hostile()))
		golden(t, format+"-empty", show(t, render.Options{Format: format}, nil))
		golden(t, format+"-noheaders", show(t, render.Options{Format: format, NoHeaders: true}, hostile()[:1]))
		golden(t, format+"-terminal", show(t, render.Options{Format: format, Width: 80, Color: true}, hostile()))
		var b bytes.Buffer
		if err := render.One(&b, render.Options{Format: format}, letters(), hostile()[0]); err != nil {
			t.Fatal(err)
		}
		golden(t, format+"-one", b.String())
	}
	if got, want := show(t, render.Options{}, hostile()), show(t, render.Options{Format: "table"}, hostile()); got != want {
		t.Errorf("no format given: got\n%s\nwant a table\n%s", got, want)
	}
}

// In every format, on a terminal or not, no byte of the rows may drive a terminal.
func TestNoControlBytes(t *testing.T) {
	for _, format := range render.Formats() {
		for _, width := range []int{0, 80} {
			out := show(t, render.Options{Format: format, Width: width, Color: width > 0}, hostile())
			for i, r := range out {
				if r != '\n' && (r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x202e) {
					t.Errorf("%s, width %d: %U at byte %d of\n%q", format, width, r, i, out)
				}
			}
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	var b bytes.Buffer
	err := letters().Write(&b, render.Options{Format: "yaml\x1b"}, hostile())
	if !errors.Is(err, work.ErrUsage) {
		t.Fatalf("err = %v, want work.ErrUsage", err)
	}
	for _, part := range append(render.Formats(), `yaml\x1b`) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.String())
	}
}

func TestNames(t *testing.T) {
	v := letters()
	v.Name = nil
	if err := v.Write(&bytes.Buffer{}, render.Options{Format: "name"}, hostile()); !errors.Is(err, work.ErrUsage) {
		t.Errorf("err = %v, want work.ErrUsage", err)
	}
	if err := v.Write(&bytes.Buffer{}, render.Options{Width: 40}, hostile()); err != nil {
		t.Errorf("a table without names: %v", err)
	}
	if got, want := show(t, render.Options{Format: "name"}, []letter{{ID: "a\x1b\nb"}, {ID: "c"}}), `a\x1b\nb`+"\nc\n"; got != want {
		t.Errorf("names %q, want %q", got, want)
	}
}

// brokenPipe takes so many bytes, as the reader of `| head` does.
type brokenPipe struct{ left int }

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(b), nil
}

func TestBrokenPipeComesBack(t *testing.T) {
	rows := make([]letter, 5000)
	for i := range rows {
		rows[i] = letter{ID: fmt.Sprintf("del_%04d", i), Message: strings.Repeat("x", 80)}
	}
	for _, format := range render.Formats() {
		for _, room := range []int{0, 70_000} {
			if format == render.Name {
				room = 0 // all names fit into 70,000 bytes
			}
			if err := letters().Write(&brokenPipe{room}, render.Options{Format: format}, rows); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("%s after %d bytes: err = %v, want EPIPE", format, room, err)
			}
		}
	}
	if err := render.Fields(&brokenPipe{}, render.Options{}, []render.Field{{Name: "a", Value: "b"}}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("fields: err = %v, want EPIPE", err)
	}
	if err := render.Title(&brokenPipe{}, render.Options{}, "a"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("title: err = %v, want EPIPE", err)
	}
	if err := render.Block(&brokenPipe{}, "a"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("block: err = %v, want EPIPE", err)
	}
}
