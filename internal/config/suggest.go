package config

import (
	"strings"

	"example.com/whctl/internal/policy"
)

// nearest is the known path that an unknown one most likely stands for. Keys beside it
// come first; a key of the same name elsewhere counts as two slips away.
func (l *loader) nearest(path string) string {
	parent, key := split(path)
	key = key[:min(len(key), 64)] // the work grows with its length
	best, bestSlips := "", 1<<30
	for _, candidate := range l.schema.paths("", placeholders(parent)) {
		group, name := split(candidate)
		n := slips(key, name)
		if group != parent {
			n += 2
		}
		if n < bestSlips {
			best, bestSlips = candidate, n
		}
	}
	return best
}

// split parts the last segment from its group.
func split(path string) (group, key string) {
	if i := strings.LastIndex(path, sep); i >= 0 {
		return path[:i], path[i+len(sep):]
	}
	return "", path
}

// placeholders names the free parts of candidates: those of parent where the candidate
// lies on its way, else default for policies and NAME for all others.
func placeholders(parent string) func(group string) string {
	return func(group string) string {
		if rest, ok := strings.CutPrefix(parent, group+sep); ok {
			name, _, _ := strings.Cut(rest, sep)
			return name
		}
		if group == "policies" {
			return policy.Default().Name
		}
		return "NAME"
	}
}

// closest is the candidate with the fewest slips.
func closest(word string, candidates []string) string {
	best, bestSlips := "", 1<<30
	for _, c := range candidates {
		if n := slips(word, c); n < bestSlips {
			best, bestSlips = c, n
		}
	}
	return best
}

// slips counts the letters that were left out, added, changed or swapped with their
// neighbour between a and b.
func slips(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(y); j++ {
			change := 1
			if x[i-1] == y[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(y)]
}
