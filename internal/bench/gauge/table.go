package gauge

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bar is what a value is held to, and what it ought to reach.
type Bar struct {
	Hold, Aim float64
	AtMost    bool // smaller is better
}

// AtLeast is a bar that a value has to reach.
func AtLeast(hold, aim float64) *Bar { return &Bar{Hold: hold, Aim: aim} }

// AtMost is a bar that a value has to stay below.
func AtMost(hold, aim float64) *Bar { return &Bar{Hold: hold, Aim: aim, AtMost: true} }

// met looks at a value.
func (b *Bar) met(value float64) bool {
	if b.AtMost {
		return value <= b.Hold
	}
	return value >= b.Hold
}

func (b *Bar) String() string {
	sign := "≥ "
	if b.AtMost {
		sign = "≤ "
	}
	text := sign + short(b.Hold)
	if b.Aim != 0 {
		text += " (aim " + short(b.Aim) + ")"
	}
	return text
}

// Row is one measure.
type Row struct {
	What   string
	Unit   string    // "" for a ratio
	Bar    *Bar      // nil: told for its own sake
	Values []float64 // one for each round
	Other  []float64 // cores that others kept busy in each run behind it
}

// Table is what was measured, and how dear the runs were.
type Table struct {
	rows  []Row
	runs  []string // in the order of their first appearance
	costs map[string][]Run
}

// Run is one run of something, which did so many units of work.
type Run struct {
	Cost
	Units float64
	WAL   float64 // bytes written to Postgres' log
}

// PerSecond is its rate.
func (r Run) PerSecond() float64 { return r.Units / r.Wall.Seconds() }

// Add adds a measure.
func (t *Table) Add(r Row) { t.rows = append(t.rows, r) }

// AddRun adds a run of what is called name.
func (t *Table) AddRun(name string, r Run) {
	if t.costs == nil {
		t.costs = make(map[string][]Run)
	}
	if _, known := t.costs[name]; !known {
		t.runs = append(t.runs, name)
	}
	t.costs[name] = append(t.costs[name], r)
}

// Print writes both tables in Markdown, or nothing where nothing was measured.
func (t *Table) Print(w io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	lines := [][]string{{"measure", "bar", "value", "verdict", "spread", "rounds", "cores_other"}}
	for _, r := range t.rows {
		bar, verdict := "–", ""
		value := Median(r.Values)
		if r.Bar != nil {
			bar, verdict = r.Bar.String(), "miss"
			if r.Bar.met(value) {
				verdict = "ok"
			}
		}
		lines = append(lines, []string{
			r.What, bar, unit(value, r.Unit), verdict, short(slices.Min(r.Values)) + " – " + short(slices.Max(r.Values)),
			strconv.Itoa(len(r.Values)), short(Median(r.Other)),
		})
	}
	if err := markdown(w, lines); err != nil || len(t.runs) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return markdown(w, t.dear())
}

// dear is the table of runs, each column a median of its own.
func (t *Table) dear() [][]string {
	lines := [][]string{{"run", "per s", "program µs", "Postgres µs", "receiver µs", "WAL B", "peak RSS MB", "cores_other", "runs"}}
	for _, name := range t.runs {
		of := func(f func(Run) float64) string {
			var xs []float64
			for _, r := range t.costs[name] {
				xs = append(xs, f(r))
			}
			return short(Median(xs))
		}
		lines = append(lines, []string{
			name, of(Run.PerSecond),
			of(func(r Run) float64 { return float64(r.Program.Microseconds()) / r.Units }),
			of(func(r Run) float64 { return float64(r.Postgres.Microseconds()) / r.Units }),
			of(func(r Run) float64 { return float64(r.Receiver.Microseconds()) / r.Units }),
			of(func(r Run) float64 { return r.WAL / r.Units }),
			of(func(r Run) float64 { return float64(r.Peak) / 1e6 }),
			of(func(r Run) float64 { return r.Other }), strconv.Itoa(len(t.costs[name])),
		})
	}
	return lines
}

// markdown pads the cells, so that it can be read as it stands. The first line is the head.
func markdown(w io.Writer, lines [][]string) error {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	rule := make([]string, len(widths))
	for i, n := range widths {
		rule[i] = strings.Repeat("-", max(3, n))
	}
	for _, line := range slices.Insert(slices.Clone(lines), 1, rule) {
		for i, cell := range line {
			line[i] = cell + strings.Repeat(" ", max(0, max(3, widths[i])-len([]rune(cell))))
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | ")); err != nil {
			return err
		}
	}
	return nil
}

func unit(x float64, name string) string { return strings.TrimSpace(short(x) + " " + name) }

// short keeps three digits, and all of those before the point.
func short(x float64) string {
	if x == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', min(digits, 4), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
