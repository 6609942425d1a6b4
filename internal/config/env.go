package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"

	"example.com/whctl/internal/policy"
)

const (
	envPrefix   = "WHCTL_"
	envDatabase = "WHCTL_DATABASE_URL"
	envConfig   = "WHCTL_CONFIG"
	envOperator = "WHCTL_OPERATOR"
	envBinaries = "WHCTL_PG_BIN" // of the private server for demo and tests
)

// Kubernetes puts such variables into every pod beside a Service whose name begins
// with whctl. They are none of ours.
var serviceLink = regexp.MustCompile(`^WHCTL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// readEnvironment takes the variables that name keys. An empty variable counts as
// unset: that is how crontabs and compose files leave one out.
func (l *loader) readEnvironment(file *layer) *layer {
	out := newLayer()
	provider := env.Provider("", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: l.variables,
		TransformFunc: func(name, text string) (string, any) {
			path, place := l.variable(name, file)
			if path == "" {
				return "", nil
			}
			at := origin{rank: byEnvironment, where: "environment " + name}
			if other, ok := out.origins[path]; ok {
				l.problems.add(at, path, "also set by %s (unset one of them)", other.where)
				return "", nil
			}
			out.origins[path] = at
			return path, fromText(place, text)
		},
	})
	values, err := provider.Read()
	if err != nil {
		l.problems.add(origin{rank: byEnvironment}, "", "cannot be read: %v", err)
	}
	out.values = values
	return out
}

// variables lists NAME=value of the set ones in a fixed order. The database's is always
// looked up: whoever injects LookupEnv alone gets at least that.
func (l *loader) variables() []string {
	set := map[string]string{}
	for _, line := range append(l.Environ(), envDatabase) {
		name, _, _ := strings.Cut(line, "=")
		if text, _ := l.LookupEnv(name); strings.HasPrefix(name, envPrefix) && text != "" {
			set[name] = name + "=" + text
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		lines = append(lines, set[name])
	}
	return lines
}

// variable is the path that a variable sets; "" for one that sets none.
func (l *loader) variable(name string, file *layer) (string, *node) {
	switch name {
	case envDatabase:
		path := join("database", "url")
		return path, l.schema.at(path)
	case envConfig, envOperator, envBinaries:
		return "", nil
	}
	path, place := l.locate(strings.Split(strings.TrimPrefix(name, envPrefix), "__"), file)
	if place == nil || place.isGroup() {
		l.unknown = append(l.unknown, name)
		return "", nil
	}
	return path, place
}

// locate finds the place that segments name. A shell cannot export a name with a hyphen
// or dot, so FIVE_MINUTES is also the five-minutes of the file; a name that no file
// knows is taken in lower case.
func (l *loader) locate(segments []string, file *layer) (string, *node) {
	place, path := l.schema, ""
	for i, segment := range segments {
		key := strings.ToLower(segment)
		next, named := place.child(key)
		if next == nil || named && !goodName(key) {
			return "", nil
		}
		if named {
			key = written(key, names(file, path))
		}
		if i > 0 {
			key = join(path, key)
		}
		place, path = next, key
	}
	return path, place
}

// written is the one of names that word stands for, or word where that is none or not
// clear.
func written(word string, names []string) string {
	var fitting []string
	for _, name := range names {
		if strings.ToLower(name) == word {
			return name
		}
		if plain(name) == plain(word) {
			fitting = append(fitting, name)
		}
	}
	if len(fitting) == 1 {
		return fitting[0]
	}
	return word
}

// plain is a name as it can stand in a variable's.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}

// names lists what stands directly below a group, in order.
func names(l *layer, group string) []string {
	found := map[string]bool{}
	for path := range l.origins {
		if rest, ok := strings.CutPrefix(path, group+sep); ok {
			name, _, _ := strings.Cut(rest, sep)
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// fromText is a value that was given as one text: lists are parted by commas.
func fromText(place *node, text string) any {
	if !place.list {
		return text
	}
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// readFlags takes the values that flags give.
func (l *loader) readFlags(file *layer) *layer {
	out := newLayer()
	for key, text := range l.Flags {
		at := origin{rank: byFlag, where: "flag --" + strings.NewReplacer(".", "-", "_", "-").Replace(key)}
		path, place := l.locate(strings.Split(key, "."), file)
		if place == nil || place.isGroup() {
			l.problems.add(at, strings.ReplaceAll(key, ".", sep), "no such key")
			continue
		}
		out.set(path, fromText(place, text), at)
	}
	return out
}

// reportUnknownVariables names the variables that look like whctl's own and are not:
// most likely a setting that does not act.
func (l *loader) reportUnknownVariables(m *layer) {
	secrets := map[string]bool{}
	for _, name := range names(m, "keys") {
		for _, which := range []string{"current", "previous"} {
			variable, _ := m.values[join("keys", name, which, "env")].(string)
			secrets[variable] = true
		}
	}
	for _, name := range l.unknown {
		if secrets[name] || serviceLink.MatchString(name) && !strings.Contains(name, "__") {
			continue
		}
		l.problems.add(origin{rank: byEnvironment, where: "environment " + name}, "",
			"no such setting (nearest known: %s)", l.nearestVariable(name))
	}
}

func (l *loader) nearestVariable(name string) string {
	segments := strings.Split(strings.TrimPrefix(name, envPrefix), "__")
	candidates := []string{envDatabase, envConfig, envOperator, envBinaries}
	for _, path := range l.schema.paths("", func(group string) string {
		switch {
		case len(segments) > 2 && segments[0] == strings.ToUpper(group):
			return segments[1]
		case group == "policies":
			return policy.Default().Name
		}
		return "name"
	}) {
		if !l.schema.at(path).isGroup() {
			candidates = append(candidates, envPrefix+strings.ToUpper(strings.ReplaceAll(path, sep, "__")))
		}
	}
	return closest(name[:min(len(name), 128)], candidates)
}
