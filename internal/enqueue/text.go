package enqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote is the text of a JSON string.
func unquote(raw []byte) (string, error) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
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
