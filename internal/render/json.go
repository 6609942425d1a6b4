package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// document writes one JSON document: an array of rows, or a single one's object. On a
// terminal it is indented; else each row has its line, so that a file compares well.
func (v View[T]) document(out *bufio.Writer, o Options, rows []T, single bool) error {
	var doc bytes.Buffer
	if !single {
		doc.WriteByte('[')
	}
	for i, row := range rows {
		if i > 0 {
			doc.WriteString(",\n")
		}
		b, err := v.object(row)
		if err != nil {
			return err
		}
		doc.Write(b)
	}
	if !single {
		doc.WriteByte(']')
	}
	if o.JQ != "" {
		return query(out, o, doc.Bytes())
	}
	if o.Width > 0 {
		var indented bytes.Buffer
		if err := json.Indent(&indented, doc.Bytes(), "", "  "); err != nil {
			return fmt.Errorf("indent JSON: %w", err)
		}
		doc = indented
	}
	doc.WriteByte('\n')
	_, err := doc.WriteTo(out)
	return written(err)
}

func (v View[T]) lines(out *bufio.Writer, o Options, rows []T) error {
	for _, row := range rows {
		b, err := v.object(row)
		if err != nil {
			return err
		}
		if o.JQ != "" {
			if err := query(out, o, b); err != nil {
				return err
			}
			continue
		}
		if _, err := out.Write(append(b, '\n')); err != nil {
			return written(err)
		}
	}
	return nil
}

// object is row as JSON on one line, without a line end.
func (v View[T]) object(row T) ([]byte, error) {
	var value any = row
	if v.JSON != nil {
		value = v.JSON(row)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return escape(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// escape writes as \u escapes what JSON allows raw in a string and a terminal might
// obey: DEL, C1 controls and bidirectional controls. Whoever reads the JSON gets the
// same strings. These characters can stand nowhere in JSON but in strings.
func escape(doc []byte) []byte {
	if bytes.IndexFunc(doc, obeyed) < 0 {
		return doc
	}
	b := make([]byte, 0, len(doc)+64)
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		if obeyed(r) {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = append(b, doc[:size]...)
		}
		doc = doc[size:]
	}
	return b
}

func obeyed(r rune) bool {
	return r >= 0x7f && (r <= 0x9f || unicode.Is(unicode.Bidi_Control, r))
}
