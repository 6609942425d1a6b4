package render_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"example.com/whctl/internal/render"
)

// tablewriter keeps the slice given to Append: reused, it shows the last row in
// place of others, and an operator acts on the wrong delivery.
func TestEveryRowOnceInOrder(t *testing.T) {
	var rows []letter
	for i := range 500 {
		rows = append(rows, letter{ID: fmt.Sprintf("del_%03d", i), Tenant: fmt.Sprintf("tenant_%03d", i), Message: fmt.Sprintf("error %03d", i)})
	}
	for _, format := range []string{"table", "wide", "csv", "name", "markdown", "jsonl"} {
		lines := strings.Split(strings.TrimSpace(show(t, render.Options{Format: format, NoHeaders: true}, rows)), "\n")
		if len(lines) != 500 {
			t.Fatalf("%s: %d lines, want 500", format, len(lines))
		}
		for i, line := range lines {
			if !strings.Contains(line, rows[i].ID) || format != "name" && !(strings.Contains(line, rows[i].Tenant) && strings.Contains(line, rows[i].Message)) {
				t.Fatalf("%s: line %d is %q, want %s with its own tenant and error", format, i, line, rows[i].ID)
			}
		}
	}
}

func TestHeadersAsGiven(t *testing.T) {
	first, _, _ := strings.Cut(show(t, render.Options{Format: "wide"}, hostile()), "\n")
	if want := regexp.MustCompile(`^DELIVERY +event_type Name +COUNT +MESSAGE +WORKER$`); !want.MatchString(first) {
		t.Errorf("header line %q", first)
	}
}

func TestNoTrailingBlanks(t *testing.T) {
	for _, o := range []render.Options{{}, {Format: "wide"}, {Width: 60}, {NoHeaders: true}} {
		for _, line := range strings.Split(show(t, o, hostile()), "\n") {
			if strings.HasSuffix(line, " ") {
				t.Errorf("%+v: %q ends in a blank", o, line)
			}
		}
	}
}

func TestColumnsAligned(t *testing.T) {
	lines := strings.Split(show(t, render.Options{}, hostile()), "\n")
	at := strings.Index(lines[0], "MESSAGE")
	for i, message := range []string{"401:", `\x1b]52`, "-"} {
		if got := strings.Index(lines[i+1], message); i < 2 && got != at {
			t.Errorf("message of row %d begins at %d, want %d: %q", i, got, at, lines[i+1])
		}
	}
	count := regexp.MustCompile(` (5|-1500|0)   `)
	for _, line := range lines[1:4] {
		if m := count.FindStringIndex(line); m == nil || m[1] != at {
			t.Errorf("count is not flush right before column %d: %q", at, line)
		}
	}
}

func TestNothingIsCutWithoutATerminal(t *testing.T) {
	long := strings.Repeat("a long message ", 100) + "end"
	if out := show(t, render.Options{Format: "wide"}, []letter{{ID: "a", Message: long}}); !strings.Contains(out, long) {
		t.Errorf("the message was cut: %q", out)
	}
}

func TestTerminalWidth(t *testing.T) {
	rows := []letter{{"019ab3c4-0000-7000-8000-000000000001", "a tenant with a name", 1, strings.Repeat("日本 message ", 40), ""}, {"019ab3c4-0000-7000-8000-000000000002", "b", 123456, "short", ""}}
	for _, width := range []int{200, 120, 100, 88} {
		out := show(t, render.Options{Width: width}, rows)
		for _, line := range strings.Split(out, "\n") {
			if w := twwidth.Width(line); w > width {
				t.Errorf("width %d: a line of %d: %q", width, w, line)
			}
		}
		if !strings.Contains(out, "…") || !strings.Contains(out, "short") {
			t.Errorf("width %d: want the long message cut with an ellipsis and the short one whole:\n%s", width, out)
		}
		first := strings.Split(out, "\n")[1]
		if w := twwidth.Width(first); w < width-1 { // a wide letter may leave one column
			t.Errorf("width %d: cut to %d, further than needed: %q", width, w, first)
		}
	}
	for _, width := range []int{60, 20, 1} {
		out := show(t, render.Options{Width: width}, rows)
		for _, whole := range []string{rows[0].ID, rows[1].ID, "123456", "DELIVERY", "event_type Name", "MESSAGE"} {
			if !strings.Contains(out, whole) {
				t.Errorf("width %d: %q was cut:\n%s", width, whole, out)
			}
		}
	}
}

// The widest column pays; a shorter one beside it stays whole.
func TestWidestIsCutFirst(t *testing.T) {
	rows := []letter{{ID: "a", Tenant: "a tenant with a name", Message: strings.Repeat("message ", 40)}}
	if out := show(t, render.Options{Width: 80}, rows); !strings.Contains(out, "a tenant with a name ") || !strings.Contains(out, "message message me") {
		t.Errorf("want the tenant whole and the message cut:\n%s", out)
	}
	rows[0].Tenant, rows[0].Message = rows[0].Message, "a short message of one line"
	if out := show(t, render.Options{Width: 80}, rows); !strings.HasSuffix(out, "a short message of one line\n") {
		t.Errorf("want the message whole and the tenant cut:\n%s", out)
	}
}

func TestBlanksAreKept(t *testing.T) {
	if out := show(t, render.Options{NoHeaders: true}, []letter{{ID: "a", Tenant: "  x  y", Message: "m"}}); !strings.Contains(out, "a     x  y") {
		t.Errorf("blanks of a cell are gone: %q", out)
	}
}

func TestNeverCut(t *testing.T) {
	long := strings.Repeat("x", 40)
	value := func(string) string { return long }
	for header, c := range map[string]render.Column[string]{
		"REDRIVE ID": {Value: value}, "attempt_id": {Value: value}, "ID": {Value: value},
		"STATE": {Value: value, Fixed: true}, "BYTES": {Value: value, Right: true}, "VOID": {Value: value}, "ID OF": {Value: value},
	} {
		c.Header = header
		var b bytes.Buffer
		v := render.View[string]{Columns: []render.Column[string]{c}}
		if err := v.Write(&b, render.Options{Width: 20}, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		whole := strings.Contains(b.String(), long)
		if want := header != "VOID" && header != "ID OF"; whole != want {
			t.Errorf("%s: whole = %v, want %v:\n%s", header, whole, want, b.String())
		}
	}
}

func TestMarkdownCells(t *testing.T) {
	rows := []letter{{ID: "a", Tenant: `x|y \| z`, Message: "line\nnext <img src=x> ![i](http://x)"}}
	out := show(t, render.Options{Format: "markdown", NoHeaders: true}, rows)
	if strings.Count(out, "\n") != 1 {
		t.Fatalf("one row, one line: %q", out)
	}
	for _, want := range []string{`x\|y \\\| z`, `line\\nnext \<img`, `!\[i\](`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}

func BenchmarkTable(b *testing.B) {
	rows := make([]letter, 5000)
	for i := range rows {
		rows[i] = letter{ID: fmt.Sprintf("019ab3c4-0000-7000-8000-%012d", i), Tenant: "tenant", Message: "503: service unavailable, try again later"}
	}
	for b.Loop() {
		if err := letters().Write(&bytes.Buffer{}, render.Options{Width: 100}, rows); err != nil {
			b.Fatal(err)
		}
	}
}
