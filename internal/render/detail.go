package render

import (
	"bufio"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/tw"
)

// Field is one line of a detail view.
type Field struct{ Name, Value string }

// Fields writes aligned lines of names and values, for people. Values are made
// visible and never cut: whoever asks for one thing wants all of it.
func Fields(w io.Writer, _ Options, fields []Field) error {
	g := &grid{right: make([]bool, 2), fixed: make([]bool, 2)}
	for _, f := range fields {
		value := Visible(f.Value)
		if value == "" {
			value = none
		}
		g.rows = append(g.rows, []string{f.Name + ":", value})
	}
	if len(g.rows) == 0 {
		return nil
	}
	out := bufio.NewWriter(w)
	if err := g.draw(out, plain(), tw.Padding{Right: "  ", Overwrite: true}); err != nil {
		return err
	}
	return written(out.Flush())
}

// Title writes an empty line and the title of a section.
func Title(w io.Writer, o Options, title string) error {
	title = Visible(title)
	if o.Color {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	_, err := io.WriteString(w, "\n"+title+"\n")
	return written(err)
}

// Block writes a text of several lines, such as a payload, indented and each line
// made visible. Only line feeds end a line.
func Block(w io.Writer, text string) error {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("  "+Visible(strings.TrimSuffix(line, "\n")), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return written(err)
}
