package config

import (
	"os"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// Options say where Load looks.
type Options struct {
	Path      string                            // --config; "" searches
	Dir       string                            // where whctl.yaml is looked for first; "" is the working directory
	Flags     map[string]string                 // key → value, such as database.url; lists parted by commas
	LookupEnv func(string) (string, bool)       // nil: os.LookupEnv
	Environ   func() []string                   // NAME=value, to find the names; nil: os.Environ
	ReadFile  func(name string) ([]byte, error) // nil: the file system, at most maxFile bytes
}

// Load reads, merges and checks the configuration. Its error names all that is wrong,
// one line each, and wraps work.ErrConfig.
func Load(o Options) (*Config, error) {
	o = o.withDefaults()
	l := &loader{Options: o, schema: schema()}
	file := l.readFile()
	environment := l.readEnvironment(file)
	flags := l.readFlags(file)
	m := l.merge(defaults(), file, environment, flags)
	l.reportUnknownVariables(m)
	c := l.build(m)
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	c.settings = l.settings(m, c)
	c.anchor()
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.Environ == nil {
		o.Environ = os.Environ
	}
	if o.ReadFile == nil {
		o.ReadFile = readBounded
	}
	return o
}

// loader carries what one Load needs.
type loader struct {
	Options
	schema   *node
	file     string // that was read
	problems problems
	unknown  []string // variables that begin with WHCTL_ and name no key
}

// rank orders the layers: a higher one wins.
type rank int

const (
	byDefault rank = iota
	byFile
	byEnvironment
	byFlag
)

// origin is where a value was set.
type origin struct {
	rank  rank
	where string // FILE:LINE, environment NAME, flag --NAME; "" for defaults
	line  int    // byFile
	from  string // name of the policy that it was inherited from; "" for its own
}

// label is the origin in `config show`.
func (o origin) label() string {
	label := o.where
	switch o.rank {
	case byDefault:
		return "default"
	case byFile:
		label = "file " + o.where
	}
	if o.from != "" {
		label += " (of policy " + o.from + ")"
	}
	return label
}

// layer is what one place sets: texts and lists of texts by path (see join). Groups
// that are written down have an origin too, even when they are empty.
type layer struct {
	values  map[string]any
	origins map[string]origin
}

func newLayer() *layer {
	return &layer{values: map[string]any{}, origins: map[string]origin{}}
}

func (l *layer) set(path string, value any, from origin) {
	l.values[path] = value
	l.origins[path] = from
}

// merge lays the layers over each other, key by key; a list replaces a list.
func (l *loader) merge(layers ...*layer) *layer {
	k := koanf.New(sep)
	m := newLayer()
	for _, layer := range layers {
		if err := k.Load(confmap.Provider(layer.values, sep), nil); err != nil {
			l.problems.add(origin{}, "", "cannot be merged: %v", err)
		}
		for path, from := range layer.origins {
			m.origins[path] = from
		}
	}
	for path, value := range k.All() {
		m.values[path] = value
	}
	return m
}
