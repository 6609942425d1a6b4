package enqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// eachMember calls f with the name and the value of each member of the JSON object that
// line is, in their order, as they stand in line without the blanks around them. Names
// are raw too: quotes and escapes included.
func eachMember(line []byte, f func(name, value []byte) error) error {
	if err := checkJSON(line); err != nil {
		return err
	}
	i := skipBlanks(line, 0)
	if line[i] != '{' {
		return errors.New("not a JSON object")
	}
	// From here on line is known to be valid, so nothing is checked twice.
	i = skipBlanks(line, i+1)
	for line[i] != '}' {
		name := line[i:skipString(line, i)]
		i = skipBlanks(line, i+len(name)) // the colon
		i = skipBlanks(line, i+1)
		end := skipValue(line, i)
		if err := f(name, line[i:end]); err != nil {
			return err
		}
		i = skipBlanks(line, end)
		if line[i] == ',' {
			i = skipBlanks(line, i+1)
		}
	}
	return nil
}

// checkJSON says where line stops to be JSON. It does not quote: line holds a payload.
func checkJSON(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("not valid UTF-8")
	}
	if json.Valid(line) {
		return nil
	}
	var v json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(line, &v); errors.As(err, &syntax) && syntax.Error() != "unexpected end of JSON input" {
		return fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
	}
	return errors.New("not valid JSON: it ends too early")
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// skipString is the place behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue is the place behind the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
			continue // none of these ends a value
		default: // a number or a word
			for i++; i < len(b) && isPlain(b[i]); i++ {
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// isPlain holds for what numbers, true, false and null are made of.
func isPlain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '.' || c == '-' || c == '+' || c == 'E'
}

// unquote is the text of a JSON string.
func unquote(raw []byte) (string, error) {
	inner := raw[1 : len(raw)-1]
	if strings.IndexByte(string(inner), '\\') < 0 {
		return string(inner), nil
	}
	if loneSurrogate(inner) {
		return "", errors.New("holds half of a surrogate pair, which is no character")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errors.New("not a JSON string") // unreachable: raw was checked
	}
	return s, nil
}

// loneSurrogate looks for \ud800 and its kin without their other half. They would all
// become the same replacement character, and different ids the same one.
func loneSurrogate(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		i++
		r := escaped(inner[i:])
		if !utf16.IsSurrogate(r) {
			continue
		}
		i += 4
		if i+2 >= len(inner) || inner[i+1] != '\\' {
			return true
		}
		if utf16.DecodeRune(r, escaped(inner[i+2:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escaped is the code unit of an escape such as u00e9; 0 for other escapes.
func escaped(b []byte) rune {
	if len(b) < 5 || b[0] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[1:5]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
