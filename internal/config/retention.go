package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// MaxBatch bounds the deliveries of one transaction of a sweep.
const MaxBatch = 10_000

func (l *loader) retention(m *layer, policies map[string]policy.Policy) Retention {
	window := join("retention", "redrive_window")
	r := Retention{RedriveWindow: read(l, m, window, ParseAge), Policies: map[string]RetentionPolicy{}}
	for _, name := range names(m, "retention") {
		if join("retention", name) == window {
			continue
		}
		before := len(l.problems)
		p := l.retentionPolicy(m, name)
		r.Policies[name] = p
		if len(l.problems) == before {
			l.outlivesDuplicates(m, p, r.RedriveWindow, policies)
		}
	}
	return r
}

func (l *loader) retentionPolicy(m *layer, name string) RetentionPolicy {
	group := join("retention", name)
	at := func(key string) string { return join(group, key) }
	preset(m, group, "target", TargetDeliveries)
	preset(m, group, "batch", strconv.Itoa(DefaultBatch))
	l.require(m, group, "version", "keep")
	p := RetentionPolicy{
		Name:        name,
		Version:     read(l, m, at("version"), number(1, 1_000_000_000)),
		Target:      read(l, m, at("target"), target),
		States:      readList(l, m, at("states"), finishedState),
		Keep:        read(l, m, at("keep"), moreThanZero(ParseAge)),
		Batch:       read(l, m, at("batch"), number(1, MaxBatch)),
		MaxRows:     read(l, m, at("max_rows"), number[int64](1, 1<<53)),
		MaxFraction: read(l, m, at("max_fraction"), share),
		ArchiveDir:  read(l, m, join(group, "archive", "dir"), directory),
	}
	states := len(m.textsOf(at("states"))) > 0
	switch {
	case name == FinishedPolicy:
		l.problems.add(l.place(m, group), group, "is the name of what sweeps by an age given by hand (choose another)")
	case p.Target == TargetDeliveries && !states:
		l.problems.add(l.place(m, group), at("states"), "is missing (a sweep removes only the states that it names)")
	case p.Target == TargetAttempts && p.ArchiveDir != "":
		l.problems.add(m.origins[join(group, "archive", "dir")], join(group, "archive"), "has no use with target: attempts (take it out; attempts are archived with their delivery)")
	case p.Target == TargetAttempts && states:
		l.problems.add(m.origins[at("states")], at("states"), "has no use with target: attempts (take it out)")
	}
	return p
}

func (l *layer) textsOf(path string) []string {
	texts, _ := l.values[path].([]string)
	return texts
}

// outlivesDuplicates holds the keeping of delivered rows against the longest time after
// which the same delivery may come again: a row that is gone cannot tell a duplicate.
func (l *loader) outlivesDuplicates(m *layer, p RetentionPolicy, window time.Duration, policies map[string]policy.Policy) {
	if !slices.Contains(p.States, work.Delivered) {
		return
	}
	longest, horizon := longestRetries(policies)
	if p.Keep-window > horizon {
		return
	}
	path := join("retention", p.Name, "keep")
	l.problems.add(m.origins[path], path,
		"%s does not exceed %s + %s, the redrive_window and the longest that policy %s retries (a delivered row must outlive every duplicate)",
		FormatDuration(p.Keep), FormatDuration(window), FormatDuration(horizon.Round(time.Second)), longest)
}

// DuplicateWindow is how long after a delivery a duplicate of it may come: the longest
// that a policy retries, and the time in which a dead letter may be redriven.
func (c *Config) DuplicateWindow() time.Duration {
	_, horizon := longestRetries(c.Policies)
	return c.Retention.RedriveWindow + horizon
}

func longestRetries(policies map[string]policy.Policy) (longest string, horizon time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if h := policies[name].Horizon(); h > horizon {
			longest, horizon = name, h
		}
	}
	return longest, horizon
}

func target(s string) (string, error) {
	if s != TargetDeliveries && s != TargetAttempts {
		return "", fmt.Errorf("%q is no target (want %s or %s)", s, TargetDeliveries, TargetAttempts)
	}
	return s, nil
}

func finishedState(s string) (work.State, error) {
	switch state := work.State(s); state {
	case work.Delivered, work.Dead, work.Cancelled, work.Discarded:
		return state, nil
	}
	return "", fmt.Errorf("%q is no state that a sweep may remove (want %s, %s, %s or %s)", s, work.Delivered, work.Cancelled, work.Discarded, work.Dead)
}

func share(s string) (float64, error) {
	f, err := parseFloat(s)
	if err == nil && !(f > 0 && f <= 1) {
		err = fmt.Errorf("%s is out of bounds (want more than 0, at most 1)", s)
	}
	return f, err
}

func directory(s string) (string, error) {
	if !filepath.IsAbs(s) {
		return "", fmt.Errorf("%q is no absolute path (cron and services start in other directories)", s)
	}
	return filepath.Clean(s), nil
}
