package render

import (
	"bufio"
	"encoding/csv"
	"strings"
)

// csv writes every column, with a header line unless o says no. Cells are made
// visible: a spreadsheet is read by people, and JSON has the exact text.
func (v View[T]) csv(out *bufio.Writer, o Options, rows []T) error {
	w := csv.NewWriter(out)
	cells := make([]string, len(v.Columns))
	if !o.NoHeaders {
		for i, c := range v.Columns {
			cells[i] = c.Header
		}
		if err := w.Write(cells); err != nil {
			return written(err)
		}
	}
	for _, row := range rows {
		for i, c := range v.Columns {
			if cells[i] = c.Value(row); !c.Right { // a number stays one
				cells[i] = guard(cells[i])
			}
		}
		if err := w.Write(cells); err != nil {
			return written(err)
		}
	}
	w.Flush()
	return written(w.Error())
}

// guard keeps a spreadsheet from running a cell as a formula: a leading apostrophe
// makes it text. It looks at the cell as it came, for Visible turns a leading tab
// into a backslash. The full-width signs are formulas too where they are typed.
func guard(cell string) string {
	if strings.IndexAny(cell, "=+-@\t\r\n＝＋－＠") == 0 {
		return "'" + Visible(cell)
	}
	return Visible(cell)
}
