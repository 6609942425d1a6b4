package render

import (
	"fmt"
	"slices"
	"strings"

	"example.com/whctl/internal/work"
)

// The output formats, by the names that -o takes.
const (
	Table    = "table"    // for people; may change
	Wide     = "wide"     // table with every column
	JSON     = "json"     // one document; an array for a list
	JSONL    = "jsonl"    // one object a line
	CSV      = "csv"      // every column
	Name     = "name"     // one id a line
	Markdown = "markdown" // table to paste into a report
)

// Formats lists the output formats, the default first.
func Formats() []string { return []string{Table, Wide, JSON, JSONL, CSV, Name, Markdown} }

// Options say how results are shown.
type Options struct {
	Format    string // one of Formats; "" is table, or json where there is a JQ
	NoHeaders bool   // leave the header line out
	JQ        string // jq expression run on the JSON document, or on each object of jsonl
	Width     int    // columns of the terminal; 0: no terminal, nothing is cut or laid out for one
	Color     bool   // titles may be bold; cells and values never carry escapes
}

// Validate says what is wrong with o, wrapping work.ErrUsage, or nil. It touches
// nothing, so that a command can ask before it connects.
func (o Options) Validate() error {
	if !slices.Contains(Formats(), o.format()) {
		return fmt.Errorf("%w: unknown output format \"%s\": want one of %s", work.ErrUsage, Visible(o.Format), strings.Join(Formats(), ", "))
	}
	if o.JQ == "" {
		return nil
	}
	if f := o.format(); f != JSON && f != JSONL {
		return fmt.Errorf("%w: --jq works on JSON: want -o json or jsonl with it, not %s", work.ErrUsage, f)
	}
	_, err := compile(o.JQ)
	return err
}

func (o Options) format() string {
	switch {
	case o.Format != "":
		return o.Format
	case o.JQ != "":
		return JSON
	}
	return Table
}
