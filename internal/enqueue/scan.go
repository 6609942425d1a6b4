package enqueue

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds how deep arrays and objects may stand in each other, as encoding/json
// does.
const maxDepth = 10000

// eachMember calls f with the name and the value of each member of the JSON object that
// line is, in their order, as they stand in line without the blanks around them. Names
// are raw too: quotes and escapes included. What follows a member may turn out not to be
// JSON after f was called.
//
// A scanner of its own, since the payload is wanted as it stands, and each byte is looked
// at once: encoding/json goes over it three times.
func eachMember(line []byte, f func(name, value []byte) error) error {
	if !utf8.Valid(line) {
		return errors.New("not valid UTF-8")
	}
	s := scanner{b: line, depth: 1}
	s.blanks()
	if s.peek() != '{' {
		if s.value(); s.valid() {
			return errors.New("not a JSON object")
		}
		return s.err()
	}
	s.i++
	for first := true; s.next(first, '}'); first = false {
		name, value := s.member()
		if s.bad {
			break
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	if !s.valid() {
		return s.err()
	}
	return nil
}

// isJSON says whether b can stand inside of the envelope's JSON.
func isJSON(b []byte) bool {
	s := scanner{b: b}
	s.value()
	return s.valid() && utf8.Valid(b)
}

// scanner goes over JSON text (RFC 8259). Once it is bad it stays where it is.
type scanner struct {
	b     []byte
	i     int
	depth int
	bad   bool
}

// err says where the text stops to be JSON. It does not quote: there is a payload in it.
func (s *scanner) err() error {
	if s.i >= len(s.b) {
		return errors.New("not valid JSON: it ends too early")
	}
	return fmt.Errorf("not valid JSON at byte %d", s.i+1)
}

// valid says that all of the text was JSON.
func (s *scanner) valid() bool {
	s.blanks()
	s.bad = s.bad || s.i < len(s.b)
	return !s.bad
}

// peek is the next byte; 0, which is nowhere right, at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) blanks() {
	if !s.bad {
		s.i = skipBlanks(s.b, s.i)
	}
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// next goes to the next element of an array or object; false at its end.
func (s *scanner) next(first bool, end byte) bool {
	s.blanks()
	switch c := s.peek(); {
	case s.bad:
		return false
	case c == end:
		s.i++
		return false
	case first:
		return true
	case c == ',':
		s.i++
		s.blanks()
		return true
	}
	s.bad = true
	return false
}

func (s *scanner) member() (name, value []byte) {
	begin := s.i
	s.text()
	name = s.b[begin:s.i]
	s.blanks()
	s.expect(':')
	s.blanks()
	begin = s.i
	s.value()
	return name, s.b[begin:s.i]
}

func (s *scanner) expect(c byte) {
	if s.bad = s.bad || s.peek() != c; !s.bad {
		s.i++
	}
}

// value goes over one value and the blanks before it.
func (s *scanner) value() {
	s.blanks()
	if s.bad {
		return
	}
	switch c := s.peek(); c {
	case '"':
		s.text()
	case '{', '[':
		if s.depth == maxDepth {
			s.bad = true
			return
		}
		s.depth++
		s.i++
		for first := true; s.next(first, c+2); first = false { // } and ] stand two behind { and [
			if c == '{' {
				s.member()
			} else {
				s.value()
			}
		}
		s.depth--
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scanner) word(w string) {
	for i := range len(w) {
		s.expect(w[i])
	}
}

func (s *scanner) text() {
	s.expect('"')
	for ; !s.bad; s.i++ {
		switch c := s.peek(); {
		case c == '"':
			s.i++
			return
		case c < ' ':
			s.bad = true
			return
		case c == '\\':
			s.i++
			s.escape()
		}
	}
}

// escape goes to the last byte of an escape.
func (s *scanner) escape() {
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return
	case 'u':
		for range 4 {
			s.i++
			if c := s.peek(); !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				s.bad = true
				return
			}
		}
		return
	}
	s.bad = true
}

func (s *scanner) number() {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.peek() == '.' && !s.bad {
		s.i++
		s.digits()
	}
	if c := s.peek(); (c == 'e' || c == 'E') && !s.bad {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		s.digits()
	}
}

func (s *scanner) digits() {
	begin := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	s.bad = s.bad || s.i == begin
}
