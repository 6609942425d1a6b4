package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// StatusSet is a set of HTTP statuses. It is immutable and comparable; the zero value
// is empty.
type StatusSet struct {
	bits [10]uint64 // one bit for each status from 0 to 599, and some spare
}

// ParseStatusSet reads single statuses (429) and classes (5xx) from 300 to 599. 2xx is
// always delivered and 1xx is no final answer, so that neither can be mapped.
func ParseStatusSet(words []string) (StatusSet, error) {
	var s StatusSet
	var errs []error
	for _, w := range words {
		first, last, err := parseStatus(w)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s = s.with(first, last)
	}
	if err := errors.Join(errs...); err != nil {
		return StatusSet{}, err
	}
	return s, nil
}

// with is s and the statuses from first to last.
func (s StatusSet) with(first, last int) StatusSet {
	for status := first; status <= last; status++ {
		s.bits[status/64] |= 1 << (status % 64)
	}
	return s
}

// parseStatus is the range that one word stands for, both ends included.
func parseStatus(word string) (first, last int, err error) {
	w := strings.ToLower(strings.TrimSpace(word))
	if digit, ok := strings.CutSuffix(w, "xx"); ok && len(digit) == 1 && digit >= "3" && digit <= "5" {
		first = int(digit[0]-'0') * 100
		return first, first + 99, nil
	}
	n, err := strconv.Atoi(w)
	if err != nil || len(w) != 3 || n < 300 || n > 599 {
		return 0, 0, fmt.Errorf("%q is no status that could be retried (write one from 300 to 599, or 3xx, 4xx, 5xx)", word)
	}
	return n, n, nil
}

// Contains tells whether status is in the set.
func (s StatusSet) Contains(status int) bool {
	return status >= 0 && status < 64*len(s.bits) && s.bits[status/64]&(1<<(status%64)) != 0
}

// Words is the set in ascending order, whole classes as one word; ParseStatusSet
// reads it back.
func (s StatusSet) Words() []string {
	var words []string
	for class := 3; class <= 5; class++ {
		var members []string
		for status := class * 100; status < class*100+100; status++ {
			if s.Contains(status) {
				members = append(members, strconv.Itoa(status))
			}
		}
		if len(members) == 100 {
			members = []string{fmt.Sprintf("%dxx", class)}
		}
		words = append(words, members...)
	}
	return words
}

// String is the set for people, such as "408, 425, 429, 5xx".
func (s StatusSet) String() string { return strings.Join(s.Words(), ", ") }
