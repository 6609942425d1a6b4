package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// policies reads every policy after its parents. What a policy inherits is written
// into m under its own name, so that it shows among the settings.
func (l *loader) policies(m *layer) map[string]policy.Policy {
	out, broken := map[string]policy.Policy{}, map[string]bool{}
	for _, name := range l.parentsFirst(m, names(m, "policies")) {
		before := len(l.problems)
		l.dropUnusedBackoff(m, name)
		out[name] = l.policy(m, name, func(key string) string { return below(name, key) })
		parent := l.parent(m, name)
		if broken[name] = len(l.problems) > before || broken[parent]; broken[name] {
			continue // what was not understood is zero now, and would be called out of bounds
		}
		l.validatePolicy(m, out[name], out[parent])
	}
	return out
}

// below is the path of a policy's value; key has dots.
func below(name, key string) string {
	return join("policies", name, strings.ReplaceAll(key, ".", sep))
}

// validatePolicy reports what is wrong with p and not already with its parent.
func (l *loader) validatePolicy(m *layer, p, parent policy.Policy) {
	told := map[string]bool{}
	if parent.Name != "" {
		for _, problem := range parts(parent.Validate()) {
			told[problem.Error()] = true
		}
	}
	for _, problem := range parts(p.Validate()) {
		var field *policy.FieldError
		if errors.As(problem, &field) && !told[problem.Error()] {
			l.problems.add(blamed(m, p.Name, field.Field), below(p.Name, field.Field), "%s", field.Problem)
		}
	}
}

// blamed is where a bad value comes from: itself, a value that it is held against, or
// the policy that brings them together.
func blamed(m *layer, name, field string) origin {
	fields := append([]string{field}, map[string][]string{
		"lease":            {"timeout", "write_margin"},
		"backoff.cap":      {"backoff.base"},
		"circuit.open_max": {"circuit.open_for"},
	}[field]...)
	for _, f := range fields {
		if at := m.origins[below(name, f)]; at.from == "" && at.rank > byDefault {
			return at
		}
	}
	return m.origins[join("policies", name)]
}

func (l *loader) policy(m *layer, name string, at func(string) string) policy.Policy {
	duration := func(key string) time.Duration { return read(l, m, at(key), ParseDuration) }
	p := policy.Policy{
		Name:        name,
		MaxAttempts: read(l, m, at("max_attempts"), number(1, policy.MaxMaxAttempts)),
		Timeout:     duration("timeout"),
		Lease:       duration("lease"),
		WriteMargin: duration("write_margin"),
		Backoff: policy.Backoff{
			Kind:     policy.BackoffKind(read(l, m, at("backoff.type"), verbatim)),
			Base:     duration("backoff.base"),
			Cap:      duration("backoff.cap"),
			Delay:    duration("backoff.delay"),
			Schedule: readList(l, m, at("backoff.schedule"), ParseDuration),
			Jitter:   read(l, m, at("backoff.jitter"), parseFloat),
		},
		RetryAfterMax: duration("retry_after_max"),
		MaxInFlight:   read(l, m, at("max_in_flight"), number(1, policy.MaxMaxInFlight)),
		Rate:          read(l, m, at("rate"), policy.ParseRate),
		Circuit: policy.Circuit{
			Failures: read(l, m, at("circuit.failures"), number(0, policy.MaxFailures)),
			OpenFor:  duration("circuit.open_for"),
			OpenMax:  duration("circuit.open_max"),
		},
		Body: work.BodyKind(read(l, m, at("body"), verbatim)),
	}
	size := read(l, m, at("success_body_max"), ParseSize)
	p.SuccessBodyMax = int(min(size, math.MaxInt32))
	words := readList(l, m, at("retry_status"), status)
	p.RetryStatus, _ = policy.ParseStatusSet(words) // each has been parsed by itself
	return p
}

// parent is the policy that name takes its other values from; "" for default.
func (l *loader) parent(m *layer, name string) string {
	if name == policy.Default().Name {
		return ""
	}
	if parent, ok := m.values[join("policies", name, "extends")].(string); ok {
		return parent
	}
	return policy.Default().Name
}

// parentsFirst orders policies so that each comes after the one it extends, and hands
// values down on the way. A parent that cannot be is reported, and default taken in its
// place.
func (l *loader) parentsFirst(m *layer, all []string) []string {
	var order []string
	done := map[string]bool{}
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		if done[name] {
			return
		}
		parent, way := l.parent(m, name), append(way, name)
		if problem := wrongParent(parent, way, all); problem != "" {
			path := join("policies", name, "extends")
			l.problems.add(m.origins[path], path, "%s", problem)
			parent = policy.Default().Name
			m.values[path] = parent
		}
		l.knownPolicy(m, name)
		if name == policy.Default().Name {
			l.rootExtendsNothing(m)
		}
		if parent != "" && name != policy.Default().Name {
			visit(parent, way)
			inherit(m, name, parent)
		}
		done[name] = true
		order = append(order, name)
	}
	for _, name := range all {
		visit(name, nil)
	}
	return order
}

func (l *loader) rootExtendsNothing(m *layer) {
	path := join("policies", policy.Default().Name, "extends")
	if at, ok := m.origins[path]; ok {
		l.problems.add(at, path, "this policy is what all others extend (take it out)")
	}
}

// wrongParent says why the last policy of way cannot extend parent.
func wrongParent(parent string, way, all []string) string {
	if parent == "" {
		return ""
	}
	if slices.Contains(way, parent) {
		circle := append(slices.Clone(way[slices.Index(way, parent):]), parent)
		return fmt.Sprintf("extends itself: %s (let one of them extend default)", strings.Join(circle, " → "))
	}
	if !slices.Contains(all, parent) {
		return fmt.Sprintf("there is no policy %q (nearest: %s)", parent, closest(parent, all))
	}
	return ""
}

// knownPolicy reports a policy that only variables or flags speak of: its name is
// misspelt, unless it says what it extends.
func (l *loader) knownPolicy(m *layer, name string) {
	group := join("policies", name)
	if _, ok := m.origins[join(group, "extends")]; ok || name == policy.Default().Name {
		return
	}
	if m.origins[group].rank == byFile {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(m.origins)) {
		if strings.HasPrefix(path, group+sep) {
			others := slices.DeleteFunc(names(m, "policies"), func(n string) bool { return n == name })
			l.problems.add(m.origins[path], path, "there is no policy %q (nearest: %s; a new one needs its extends set too)", name, closest(name, others))
		}
	}
}

// inherit gives name what parent has and it has not.
func inherit(m *layer, name, parent string) {
	from := join("policies", parent) + sep
	for _, path := range slices.Collect(maps.Keys(m.values)) {
		key, ok := strings.CutPrefix(path, from)
		if !ok || key == "extends" {
			continue
		}
		own := join("policies", name, key)
		if _, ok := m.values[own]; ok {
			continue
		}
		at := m.origins[path]
		if at.from == "" {
			at.from = parent
		}
		m.set(own, m.values[path], at)
	}
}

// dropUnusedBackoff takes out what the type of backoff has no use for. If somebody set
// it where the type was set, or above that, it was meant to act.
func (l *loader) dropUnusedBackoff(m *layer, name string) {
	at := func(key string) string { return join("policies", name, "backoff", key) }
	kind, _ := m.values[at("type")].(string)
	if !slices.Contains([]policy.BackoffKind{policy.Exponential, policy.Fixed, policy.Schedule}, policy.BackoffKind(kind)) {
		return // a problem of its own
	}
	users := map[string]policy.BackoffKind{
		"base": policy.Exponential, "cap": policy.Exponential, "delay": policy.Fixed, "schedule": policy.Schedule,
	}
	for _, key := range slices.Sorted(maps.Keys(users)) {
		from, set := m.origins[at(key)]
		if !set || policy.BackoffKind(kind) == users[key] {
			continue
		}
		if from.from == "" && from.rank > byDefault && from.rank >= m.origins[at("type")].rank {
			l.problems.add(from, at(key), "has no use with type %s (take it out, or set type: %s)", kind, users[key])
		}
		delete(m.values, at(key))
		delete(m.origins, at(key))
	}
}

// status checks one word of a status mapping.
func status(s string) (string, error) {
	_, err := policy.ParseStatusSet([]string{s})
	return s, err
}

// parts takes a joined error apart.
func parts(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return nil
}
