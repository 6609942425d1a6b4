package config

import (
	"fmt"
	"strconv"
	"strings"
)

// read parses the value under path. Where there is none, or it is wrong (which is
// reported), the answer is zero.
func read[T any](l *loader, m *layer, path string, parse func(string) (T, error)) T {
	var zero T
	text, ok := m.values[path].(string)
	if !ok {
		return zero
	}
	v, err := parse(text)
	if err != nil {
		l.report(m, path, text, err)
		return zero
	}
	return v
}

// readList parses the items of the list under path. An item that is wrong is reported
// and left out.
func readList[T any](l *loader, m *layer, path string, parse func(string) (T, error)) []T {
	texts, _ := m.values[path].([]string)
	var out []T
	for _, text := range texts {
		v, err := parse(text)
		if err != nil {
			l.report(m, path, text, err)
			continue
		}
		out = append(out, v)
	}
	return out
}

// report adds a problem with text at the place where path was set. An inherited value
// has been reported where it was written.
func (l *loader) report(m *layer, path, text string, err error) {
	if at := m.origins[path]; at.from == "" {
		l.problems.add(at, path, "%s", withoutSecrets(err.Error(), text))
	}
}

// withoutSecrets masks text where message quotes it, if it looks like an address with a
// password or like a key that went astray.
func withoutSecrets(message, text string) string {
	shown := text
	switch {
	case strings.Contains(text, "://"):
		shown = MaskURL(text)
	case strings.Contains(text, "@"), strings.Contains(text, keyPrefix):
		shown = masked
	}
	return strings.ReplaceAll(message, strconv.Quote(text), strconv.Quote(shown))
}

func verbatim(s string) (string, error) { return s, nil }

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}

func parseFloat(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number (write one such as 0.2)", s)
	}
	return f, nil
}

// number reads a whole number within bounds.
func number[T int | int64](low, high T) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < int64(low) || n > int64(high) {
			return 0, fmt.Errorf("%q is no whole number from %d to %d", s, low, high)
		}
		return T(n), nil
	}
}
