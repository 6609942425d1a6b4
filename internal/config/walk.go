package config

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// walker takes a YAML tree apart along the schema. It goes as deep as the schema
// does, so that aliases cannot make it go round in circles.
type walker struct {
	*loader
	name string
	out  *layer
}

func (w *walker) fail(n *yaml.Node, path, format string, args ...any) {
	w.problems.add(inFile(w.name, n), path, format, args...)
}

// group takes the keys of a mapping.
func (w *walker) group(path string, place *node, n *yaml.Node) {
	if n = resolve(n); isNull(n) {
		return // a group whose keys are all commented out
	}
	if n.Kind != yaml.MappingNode {
		w.fail(n, path, "want a group of keys (%s)", strings.Join(place.shown(), ", "))
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			w.fail(key, path, "a key must be a plain word (merge keys and composed keys are not known here; a policy extends another by extends)")
			continue
		}
		below := key.Value
		if path != "" {
			below = join(path, key.Value)
		}
		if first := seen[key.Value]; first != nil {
			w.fail(key, below, "set a second time (first in line %d)", first.Line)
			continue
		}
		seen[key.Value] = key
		w.key(below, place, key, n.Content[i+1])
	}
}

// key takes what stands under one key.
func (w *walker) key(path string, parent *node, key, n *yaml.Node) {
	place, named := parent.child(key.Value)
	if place == nil || named && w.isSlip(path, place, n) {
		w.fail(key, path, "unknown key (nearest known key: %s)", dotted(w.nearest(path)))
		return
	}
	if named && !goodName(key.Value) {
		w.fail(key, path, "not a usable name (1 to %d letters, digits and signs; no blanks)", maxName)
		return
	}
	n = resolve(n)
	at := inFile(w.name, key)
	switch {
	case place.isGroup():
		if n.Kind == yaml.MappingNode || isNull(n) {
			w.out.origins[path] = at
		}
		w.group(path, place, n)
	case place.list:
		if texts, ok := w.list(path, n); ok {
			w.out.set(path, texts, at)
		}
	default:
		if text, ok := w.text(path, n); ok {
			w.out.set(path, text, at)
		}
	}
}

// isSlip tells a misspelt or misplaced key from a new name: it has a plain value where
// the named have keys, and resembles a key.
func (w *walker) isSlip(path string, place *node, n *yaml.Node) bool {
	if !place.isGroup() || resolve(n).Kind == yaml.MappingNode || isNull(resolve(n)) {
		return false
	}
	_, key := split(path)
	_, near := split(w.nearest(path))
	return slips(key, near) <= 2
}

func (w *walker) list(path string, n *yaml.Node) ([]string, bool) {
	if n.Kind != yaml.SequenceNode {
		w.fail(n, path, "want a list (write it in square brackets)")
		return nil, false
	}
	texts := []string{}
	for _, item := range n.Content {
		if text, ok := w.text(path, resolve(item)); ok {
			texts = append(texts, text)
		}
	}
	return texts, true
}

// text is the value as it is written, which is not always what YAML makes of it.
func (w *walker) text(path string, n *yaml.Node) (string, bool) {
	switch {
	case isNull(n):
		w.fail(n, path, "has no value (leave the key out to keep the default)")
	case n.Kind != yaml.ScalarNode:
		w.fail(n, path, "want a single value")
	case strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!"):
		w.fail(n, path, "has a tag, and tags are not known here (quote a text that begins with an exclamation mark)")
	default:
		return n.Value, true
	}
	return "", false
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// maxName bounds a free name, in bytes; an event type is the longest.
const maxName = 256

func goodName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	})
}

// shown lists the keys of a group for a message.
func (n *node) shown() []string {
	var keys []string
	for _, path := range n.paths("", func(string) string { return "NAME" }) {
		if !strings.Contains(path, sep) {
			keys = append(keys, path)
		}
	}
	return keys
}
