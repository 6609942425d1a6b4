package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.com/whctl/internal/work"
)

// Problem is one thing that is wrong with the configuration. Its text is one line and
// holds no secret.
type Problem struct {
	Where string // FILE:LINE, environment NAME, flag --NAME; "" where no one place is to blame
	Key   string // such as policies.default.lease; "" for the whole of Where
	What  string // what is wrong, and in brackets what to do

	rank rank
	line int
}

func (p Problem) Error() string {
	var parts []string
	for _, part := range []string{p.Where, p.Key, p.What} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Problems is the error that Load returns: everything that is wrong, a line each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes errors.Is find work.ErrConfig.
func (ps Problems) Unwrap() error { return work.ErrConfig }

// problems collects them.
type problems []Problem

func (ps *problems) add(at origin, path, format string, args ...any) {
	*ps = append(*ps, Problem{
		Where: visible(at.where), Key: dotted(path), What: cut(visible(fmt.Sprintf(format, args...))), rank: at.rank, line: at.line,
	})
}

// about tells whether path itself has been told of.
func (ps problems) about(path string) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Key == dotted(path) })
}

// err is nil without problems. The order is that of the file, then environment, then
// flags.
func (ps problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.line, b.line), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Key, b.Key))
	})
	return Problems(slices.Compact(ps))
}

// visible escapes what would not print as itself, line ends among it.
func visible(s string) string {
	quoted := strconv.Quote(s)
	if inner := quoted[1 : len(quoted)-1]; strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strings.ReplaceAll(inner, `\"`, `"`)
	}
	return s
}

// cut bounds a line that quotes what somebody wrote.
func cut(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
