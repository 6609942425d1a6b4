package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/work"
)

// maxDestinationFile bounds a destinations file, in bytes: what is longer is something
// else.
const maxDestinationFile = 4 << 20

// destinationFile is a list of destinations as it was written. The problems name the
// line that each was found in and quote no header value and no URL.
type destinationFile struct {
	name     string
	listed   bool // the key destinations is there, if only with an empty list
	entries  []destinationEntry
	problems []string
}

// destinationEntry is one destination with the lines that its keys stand in.
type destinationEntry struct {
	work.Destination
	where string         // such as destinations[2]
	lines map[string]int // by key; "" is the entry's own
}

// readDestinations reads name, or in for "-". An error means that there was nothing to
// read; what is wrong with the content is in the problems.
func readDestinations(name string, in io.Reader) (*destinationFile, error) {
	f := &destinationFile{name: name}
	if name == "-" {
		f.name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", work.ErrConfig, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDestinationFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.name, err)
	}
	if len(data) > maxDestinationFile {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", work.ErrConfig, f.name, maxDestinationFile)
	}
	f.parse(data)
	return f, nil
}

func (f *destinationFile) problem(line int, format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf("%s:%d: ", f.name, line)+fmt.Sprintf(format, args...))
}

// err is every problem, a line each; nil without one.
func (f *destinationFile) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: nothing was applied\n%s", work.ErrConfig, f.name, strings.Join(f.problems, "\n"))
}

func (f *destinationFile) parse(data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			f.problem(more.Line, "a second document (take the --- out)")
			return
		}
	}
	if errors.Is(err, io.EOF) {
		if len(doc.Content) > 0 {
			f.root(doc.Content[0])
		}
		return
	}
	what := err.Error()
	if strings.Contains(what, "anchor") {
		what = "an alias without its anchor (quote a text that begins with a star)" // the parser quotes it
	}
	f.problem(1, "no YAML: %s", strings.ReplaceAll(strings.TrimPrefix(what, "yaml: "), "\n", " "))
}

func (f *destinationFile) root(n *yaml.Node) {
	f.mapping(n, "the file", []string{"destinations"}, func(_ string, _, value *yaml.Node) {
		f.listed = true
		if isNull(value) {
			return
		}
		if value.Kind != yaml.SequenceNode {
			f.problem(value.Line, "destinations: want a list")
			return
		}
		for i, item := range value.Content {
			f.entry(fmt.Sprintf("destinations[%d]", i), resolve(item))
		}
	})
}

func (f *destinationFile) entry(where string, n *yaml.Node) {
	e := destinationEntry{where: where, lines: map[string]int{"": n.Line}}
	keys := []string{"name", "url", "policy", "key", "max_in_flight", "rate", "headers", "tenants"}
	f.mapping(n, where, keys, func(key string, at, value *yaml.Node) {
		e.lines[key] = at.Line
		if isNull(value) {
			return // a key whose value is commented out
		}
		place := where + "." + key
		switch key {
		case "name":
			e.Name = f.text(value, place)
		case "url":
			e.URL = f.text(value, place)
		case "policy":
			e.Policy = f.text(value, place)
		case "key":
			e.Key = f.text(value, place)
		case "rate":
			e.Rate = f.text(value, place)
		case "max_in_flight":
			e.MaxInFlight = f.number(value, place)
		case "headers":
			e.Headers = f.headers(value, place)
		case "tenants":
			e.Tenants = f.texts(value, place)
		}
	})
	f.entries = append(f.entries, e)
}

// line is where key stands, or the entry where it has none.
func (e destinationEntry) line(key string) int {
	if n, ok := e.lines[key]; ok {
		return n
	}
	return e.lines[""]
}

// mapping calls set for each known key, once, with its value behind aliases.
func (f *destinationFile) mapping(n *yaml.Node, where string, known []string, set func(key string, at, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		f.problem(n.Line, "%s: want keys (%s)", where, strings.Join(known, ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name := key.Value
		switch {
		case key.Kind != yaml.ScalarNode || known != nil && !slices.Contains(known, name):
			f.problem(key.Line, "%s: unknown key %s (nearest known key: %s)", where, shortQuote(name), config.Closest(name, known))
		case seen[name]:
			f.problem(key.Line, "%s: key %s is set a second time", where, shortQuote(name))
		default:
			seen[name] = true
			set(name, key, resolve(n.Content[i+1]))
		}
	}
}

// headers are references: a literal would put a secret into the table.
func (f *destinationFile) headers(n *yaml.Node, where string) map[string]work.Reference {
	headers := map[string]work.Reference{}
	f.mapping(n, where, nil, func(name string, at, value *yaml.Node) {
		place := where + "." + name
		if value.Kind != yaml.MappingNode {
			f.problem(at.Line, "%s: a literal value is refused, for it would stand in the database: write {env: NAME} or {file: PATH}", place)
			return
		}
		var ref work.Reference
		f.mapping(value, place, []string{"env", "file"}, func(key string, _, v *yaml.Node) {
			if key == "env" {
				ref.Env = f.text(v, place+".env")
			} else {
				ref.File = f.text(v, place+".file")
			}
		})
		switch {
		case (ref.Env == "") == (ref.File == ""):
			f.problem(at.Line, "%s: want exactly one of env and file", place)
		case ref.File != "" && !filepath.IsAbs(ref.File):
			f.problem(at.Line, "%s.file: want a path from the root: workers run in other folders", place)
		case ref.Env != "" && !variableName(ref.Env):
			f.problem(at.Line, "%s.env: want the name of an environment variable, and never a value", place)
		}
		headers[name] = ref
	})
	return headers
}

func (f *destinationFile) texts(n *yaml.Node, where string) []string {
	if n.Kind != yaml.SequenceNode {
		f.problem(n.Line, "%s: want a list", where)
		return nil
	}
	var texts []string
	for i, item := range n.Content {
		texts = append(texts, f.text(resolve(item), fmt.Sprintf("%s[%d]", where, i)))
	}
	return texts
}

// text is the value as it is written, which is not always what YAML makes of it.
func (f *destinationFile) text(n *yaml.Node, where string) string {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		f.problem(n.Line, "%s: want a single value", where)
		return ""
	}
	if strings.ContainsRune(n.Value, 0) {
		f.problem(n.Line, "%s: holds a NUL byte", where)
		return ""
	}
	return n.Value
}

func (f *destinationFile) number(n *yaml.Node, where string) int {
	text := f.text(n, where)
	i, err := strconv.Atoi(text)
	if err != nil || i < 1 || i > maxDestinationInFlight {
		f.problem(n.Line, "%s: %s is out of bounds (want 1 to %d)", where, shortQuote(text), maxDestinationInFlight)
		return 0
	}
	return i
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func variableName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// shortQuote keeps a message one line of bearable length.
func shortQuote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}
