package dlq

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/whctl/internal/work"
)

// Selection is a filter as it is typed.
type Selection struct {
	Destinations []string
	Tenants      []string
	EventTypes   []string
	Classes      []string
	Statuses     []string
}

// Filter reads s. Its errors wrap work.ErrUsage.
func (s Selection) Filter() (work.LetterFilter, error) {
	f := work.LetterFilter{Destinations: s.Destinations, Tenants: s.Tenants, EventTypes: s.EventTypes}
	for _, texts := range []struct {
		flag   string
		values []string
	}{{"--destination", s.Destinations}, {"--tenant", s.Tenants}, {"--event-type", s.EventTypes}} {
		for _, v := range texts.values {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return f, fmt.Errorf("%w: %s %q is no text", work.ErrUsage, texts.flag, v)
			}
			if v == "" && texts.flag != "--tenant" { // the tenant '' is a real one
				return f, fmt.Errorf("%w: %s: an empty name means none, not all", work.ErrUsage, texts.flag)
			}
		}
	}
	for _, v := range s.Classes {
		if !slices.Contains(work.Classes(), work.Class(v)) {
			return f, fmt.Errorf("%w: --class %q: want one of %s", work.ErrUsage, v, classWords())
		}
		f.Classes = append(f.Classes, work.Class(v))
	}
	for _, v := range s.Statuses {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 999 {
			return f, fmt.Errorf("%w: --status %q: want an HTTP status such as 503", work.ErrUsage, v)
		}
		f.Statuses = append(f.Statuses, n)
	}
	return f, nil
}

func classWords() string {
	words := make([]string, 0, len(work.Classes()))
	for _, c := range work.Classes() {
		words = append(words, string(c))
	}
	return strings.Join(words, ", ")
}
