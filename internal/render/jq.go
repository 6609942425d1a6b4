package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"

	"example.com/whctl/internal/work"
)

// compile reads a jq expression; what it cannot read is work.ErrUsage. The
// expression sees no environment variables and loads no modules.
func compile(expr string) (*gojq.Code, error) {
	parsed, err := gojq.Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("%w: --jq: %s", work.ErrUsage, Visible(err.Error()))
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("%w: --jq: %s", work.ErrUsage, Visible(err.Error()))
	}
	return code, nil
}

// query runs o.JQ on doc and writes each value it yields on a line of its own: a
// string without its quotes, every other value as JSON. Strings go out byte for byte,
// but on a terminal with their controls made visible.
func query(out *bufio.Writer, o Options, doc []byte) error {
	code, err := compile(o.JQ)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber() // keeps the digits of large numbers
	var input any
	if err := dec.Decode(&input); err != nil {
		return fmt.Errorf("read JSON for --jq: %w", err)
	}
	iter := code.Run(input)
	for {
		value, ok := iter.Next()
		if !ok {
			return nil
		}
		if err, ok := value.(error); ok {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil // the expression said halt
			}
			return fmt.Errorf("--jq: %s", Visible(err.Error()))
		}
		if err := yield(out, o, value); err != nil {
			return err
		}
	}
}

func yield(out *bufio.Writer, o Options, value any) error {
	text, ok := value.(string)
	if !ok {
		b, err := gojq.Marshal(value)
		if err != nil {
			return fmt.Errorf("--jq: %w", err)
		}
		text = string(escape(b))
	} else if o.Width > 0 {
		text = Visible(text)
	}
	_, err := out.WriteString(text + "\n")
	return written(err)
}
