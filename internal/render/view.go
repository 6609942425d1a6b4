package render

import (
	"bufio"
	"fmt"
	"io"

	"example.com/whctl/internal/work"
)

// Column is one column of a table or a CSV file.
type Column[T any] struct {
	Header string
	Wide   bool // shown by wide, csv and markdown, not by table
	Right  bool // numbers: to the right, never cut
	Fixed  bool // never cut. Columns whose header is ID, or ends in it, and the one that -o name prints need not say so
	Value  func(T) string
}

// View says how rows of one kind are shown.
type View[T any] struct {
	Columns []Column[T]
	JSON    func(T) any    // a value whose JSON is the stable contract; nil: the row itself
	Name    func(T) string // the id, for -o name
}

// Write shows rows in the format that o names. No rows are an empty table without
// a header, [] in JSON, nothing in JSON lines, a header in CSV and Markdown. A wrong
// option is work.ErrUsage; an error of w is wrapped, so that errors.Is still finds
// EPIPE in it.
func (v View[T]) Write(w io.Writer, o Options, rows []T) error {
	return v.write(w, o, rows, false)
}

// One shows a single row: as Write does, but in JSON as one object.
func One[T any](w io.Writer, o Options, v View[T], row T) error {
	return v.write(w, o, []T{row}, true)
}

func (v View[T]) write(w io.Writer, o Options, rows []T, single bool) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.format() == Name && v.Name == nil {
		return fmt.Errorf("%w: -o name: what this command shows has no ids", work.ErrUsage)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	err := v.format(out, o, rows, single)
	if flushed := written(out.Flush()); err == nil { // what was made before an error is shown all the same
		err = flushed
	}
	return err
}

func (v View[T]) format(out *bufio.Writer, o Options, rows []T, single bool) error {
	switch o.format() {
	case JSON:
		return v.document(out, o, rows, single)
	case JSONL:
		return v.lines(out, o, rows)
	case CSV:
		return v.csv(out, o, rows)
	case Name:
		return v.names(out, rows)
	case Markdown:
		return v.markdown(out, o, rows)
	}
	return v.table(out, o, rows)
}

func (v View[T]) names(out *bufio.Writer, rows []T) error {
	for _, row := range rows {
		if _, err := out.WriteString(Visible(v.Name(row)) + "\n"); err != nil {
			return written(err)
		}
	}
	return nil
}

// written wraps an error of the output stream.
func written(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write output: %w", err)
}
