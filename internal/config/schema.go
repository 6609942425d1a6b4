package config

import (
	"maps"
	"slices"
	"strings"
)

// sep parts the segments of a path inside this package. Names may hold dots and
// hyphens, but no control characters.
const sep = "\x1f"

func join(segments ...string) string { return strings.Join(segments, sep) }

// dotted is a path for people. A segment that is no plain word is escaped.
func dotted(path string) string { return strings.ReplaceAll(visible(path), visible(sep), ".") }

// node is a place in the schema: a value (scalar or list), or a group of fixed keys,
// or of freely named groups or values (each), or of both.
type node struct {
	list   bool
	secret bool // holds or may hold a password
	keys   map[string]*node
	each   *node
}

func (n *node) isGroup() bool { return n.keys != nil || n.each != nil }

// child is what stands under key, and whether key is a free name.
func (n *node) child(key string) (child *node, named bool) {
	if c := n.keys[key]; c != nil {
		return c, false
	}
	return n.each, n.each != nil
}

func value() *node       { return &node{} }
func list() *node        { return &node{list: true} }
func secretValue() *node { return &node{secret: true} }

func group(keys map[string]*node) *node { return &node{keys: keys} }

// values is a group of plain values.
func values(keys ...string) map[string]*node {
	m := map[string]*node{}
	for _, k := range keys {
		m[k] = value()
	}
	return m
}

// with adds keys to a group.
func with(m, more map[string]*node) map[string]*node {
	maps.Copy(m, more)
	return m
}

// schema is every key there is.
func schema() *node {
	reference := func() *node { return group(values("env", "file")) }
	policy := group(with(
		values("extends", "max_attempts", "timeout", "lease", "write_margin", "retry_after_max",
			"max_in_flight", "rate", "body", "success_body_max"),
		map[string]*node{
			"backoff":      group(with(values("type", "base", "cap", "delay", "jitter"), map[string]*node{"schedule": list()})),
			"retry_status": list(),
			"circuit":      group(values("failures", "open_for", "open_max")),
		}))
	retention := group(with(
		values("version", "target", "keep", "batch", "max_rows", "max_fraction"),
		map[string]*node{"states": list(), "archive": group(values("dir"))}))
	return group(map[string]*node{
		"database": group(with(values("url_file", "statement_timeout"), map[string]*node{"url": secretValue()})),
		"policies": {each: policy},
		"enqueue":  group(values("payload_max")),
		"egress": group(with(values("require_https", "ca_file"), map[string]*node{
			"allow_hosts": list(), "deny_hosts": list(), "allow_cidrs": list(), "deny_cidrs": list(), "ports": list(), "proxy": secretValue(),
		})),
		"keys": {each: group(map[string]*node{
			"current": reference(), "previous": reference(), "signature": group(values("type", "header", "timestamp_header", "prefix")),
		})},
		"retention": {keys: values("redrive_window"), each: retention},
		"redact":    list(),
		"guards":    {each: value()},
		"reconcile": {each: group(values("query", "limit"))},
	})
}

// at is the place of path, nil where there is none.
func (n *node) at(path string) *node {
	for _, segment := range strings.Split(path, sep) {
		if n, _ = n.child(segment); n == nil {
			return nil
		}
	}
	return n
}

// paths lists every path below n in order, groups included. A free name appears as the
// placeholder that name gives for its group.
func (n *node) paths(prefix string, name func(group string) string) []string {
	var out []string
	add := func(key string, child *node) {
		path := key
		if prefix != "" {
			path = join(prefix, key)
		}
		out = append(append(out, path), child.paths(path, name)...)
	}
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		add(key, n.keys[key])
	}
	if n.each != nil {
		add(name(prefix), n.each)
	}
	return out
}
