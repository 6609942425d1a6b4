package render

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

const (
	gap      = "   " // between two columns
	none     = "-"   // an empty cell
	ellipsis = "…"
	minCut   = 10 // columns; a text is not cut shorter than this
)

// grid is a table of finished texts.
type grid struct {
	header []string // nil: none
	rows   [][]string
	right  []bool
	fixed  []bool
}

func (v View[T]) table(out *bufio.Writer, o Options, rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	g := v.grid(rows, o.format() == Wide, Visible)
	if o.NoHeaders {
		g.header = nil
	}
	if o.Width > 0 {
		g.fit(o.Width)
	}
	return g.draw(out, plain(), tw.Padding{Right: gap, Overwrite: true})
}

// plain draws columns and nothing else: no borders, no lines.
func plain() tw.Renderer {
	return renderer.NewBlueprint(tw.Rendition{
		Borders:  tw.BorderNone,
		Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
	})
}

func (v View[T]) markdown(out *bufio.Writer, o Options, rows []T) error {
	g := v.grid(rows, true, func(s string) string { return escapeMarkdown(Visible(s)) })
	if o.NoHeaders {
		g.header = nil
	}
	return g.draw(out, renderer.NewMarkdown(), tw.Padding{Left: " ", Right: " ", Overwrite: true})
}

// escapeMarkdown keeps a cell one cell, and its text from becoming a link, an image
// or HTML on the page that shows it.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, `|`, `\|`, `<`, `\<`, `[`, `\[`, `]`, `\]`, "`", "\\`", `*`, `\*`).Replace(s)
}

// grid puts the columns' values into cells, each passed through clean. Every row has
// a slice of its own, for tablewriter keeps the one it is given: reused, it would
// show the last row again and again.
func (v View[T]) grid(rows []T, wide bool, clean func(string) string) *grid {
	g := &grid{header: []string{}}
	var columns []Column[T]
	for _, c := range v.Columns {
		if c.Wide && !wide {
			continue
		}
		columns = append(columns, c)
		g.header = append(g.header, c.Header)
		g.right = append(g.right, c.Right)
		g.fixed = append(g.fixed, c.Right || c.Fixed || isID(c.Header) || v.isName(c, rows))
	}
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = clean(c.Value(row))
			if cells[i] == "" {
				cells[i] = none
			}
		}
		g.rows = append(g.rows, cells)
	}
	return g
}

// isName tells by the first row whether c holds what -o name prints.
func (v View[T]) isName(c Column[T], rows []T) bool {
	return v.Name != nil && len(rows) > 0 && c.Value(rows[0]) == v.Name(rows[0])
}

func isID(header string) bool {
	words := strings.FieldsFunc(header, func(r rune) bool { return r == ' ' || r == '_' })
	return len(words) > 0 && strings.EqualFold(words[len(words)-1], "id")
}

// fit cuts the widest text columns until a line fits into width, or none can be cut
// any more: then the line is too long, for half an id is worse than a wrapped line.
func (g *grid) fit(width int) {
	widths, least := g.measure()
	total := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		widest := -1
		for i := range widths {
			if !g.fixed[i] && widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, cells := range g.rows {
		for i, cell := range cells {
			if twwidth.Width(cell) > widths[i] {
				cells[i] = twwidth.Truncate(cell, widths[i], ellipsis)
			}
		}
	}
}

// measure gives each column's width on the screen and the least it may be cut to.
func (g *grid) measure() (widths, least []int) {
	widths, least = make([]int, len(g.fixed)), make([]int, len(g.fixed))
	for i := range least {
		least[i] = minCut
	}
	for i, h := range g.header {
		widths[i] = twwidth.Width(h)
		least[i] = max(minCut, widths[i])
	}
	for _, cells := range g.rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], twwidth.Width(cell))
		}
	}
	return widths, least
}

// draw has tablewriter lay the grid out and writes the lines without the blanks at
// their ends. It goes through memory because tablewriter drops the errors of its
// writer; a page of a list fits.
func (g *grid) draw(out *bufio.Writer, r tw.Renderer, padding tw.Padding) error {
	var buf bytes.Buffer
	aligns := make(tw.Alignment, len(g.right))
	for i, right := range g.right {
		aligns[i] = tw.AlignLeft
		if right {
			aligns[i] = tw.AlignRight
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Padding:    tw.CellPadding{Global: padding},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft, PerColumn: aligns},
	}
	t := tablewriter.NewTable(&buf, tablewriter.WithRenderer(r), tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell}))
	if len(g.header) > 0 {
		t.Header(g.header)
	}
	for _, cells := range g.rows {
		if err := t.Append(cells); err != nil {
			return fmt.Errorf("lay out a row: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("lay out the table: %w", err)
	}
	for line := range strings.Lines(buf.String()) {
		if _, err := out.WriteString(strings.TrimRight(line, " \n") + "\n"); err != nil {
			return written(err)
		}
	}
	return nil
}
