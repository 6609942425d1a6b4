package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"example.com/whctl/internal/redact"
	"example.com/whctl/internal/work"
)

// build reads the typed configuration out of the merged texts.
func (l *loader) build(m *layer) *Config {
	operator, _ := l.LookupEnv(envOperator)
	c := &Config{
		File:      l.file,
		Operator:  strings.TrimSpace(operator),
		Database:  l.database(m),
		Policies:  l.policies(m),
		Enqueue:   Enqueue{PayloadMax: read(l, m, join("enqueue", "payload_max"), payloadMax)},
		Egress:    l.egress(m),
		Keys:      l.keys(m),
		Redact:    readList(l, m, "redact", redactRule),
		Guards:    map[string]string{},
		Reconcile: map[string]Source{},
	}
	c.Retention = l.retention(m, c.Policies)
	for _, name := range names(m, "guards") {
		c.Guards[name] = read(l, m, join("guards", name), statement)
	}
	for _, name := range names(m, "reconcile") {
		at := join("reconcile", name)
		l.require(m, at, "query")
		preset(m, at, "limit", fmt.Sprint(defaultLimit))
		c.Reconcile[name] = Source{
			Query: read(l, m, join(at, "query"), statement),
			Limit: read(l, m, join(at, "limit"), number(1, math.MaxInt32)),
		}
	}
	return c
}

// require reports keys of a named group that have no value.
func (l *loader) require(m *layer, group string, keys ...string) {
	for _, key := range keys {
		if _, ok := m.origins[join(group, key)]; !ok {
			l.problems.add(l.place(m, group), join(group, key), "is missing")
		}
	}
}

// place is where a group was written, or the first of its values, or the group around
// it.
func (l *loader) place(m *layer, group string) origin {
	if at, ok := m.origins[group]; ok {
		return at
	}
	for _, path := range slices.Sorted(maps.Keys(m.origins)) {
		if at := m.origins[path]; strings.HasPrefix(path, group+sep) && at.rank > byDefault {
			return at
		}
	}
	if around, _ := split(group); around != "" {
		return l.place(m, around)
	}
	return origin{}
}

// preset gives a key of a named group its default.
func preset(m *layer, group, key, text string) {
	if path := join(group, key); m.values[path] == nil {
		m.set(path, text, origin{})
	}
}

// database takes the address from its file where one is named. Of the two, the one
// that was set in the higher place counts.
func (l *loader) database(m *layer) Database {
	urlPath, filePath := join("database", "url"), join("database", "url_file")
	d := Database{
		URL:              read(l, m, urlPath, verbatim),
		URLFile:          read(l, m, filePath, verbatim),
		StatementTimeout: read(l, m, join("database", "statement_timeout"), moreThanZero(ParseDuration)),
	}
	url, file := m.origins[urlPath], m.origins[filePath]
	switch {
	case d.URLFile == "":
	case d.URL != "" && url.rank == file.rank:
		l.problems.add(file, filePath, "set beside database.url (take one of them out)")
		return d
	case d.URL != "" && url.rank > file.rank:
		d.URLFile = ""
		delete(m.values, filePath)
	default:
		text, err := Resolver{ReadFile: l.ReadFile}.file(d.URLFile)
		if err != nil {
			l.problems.add(file, filePath, "%v", err)
			return d
		}
		d.URL = text
		m.set(urlPath, text, file)
	}
	if err := connectionString(d.URL); err != nil {
		l.problems.add(m.origins[urlPath], urlPath, "%v", err)
	}
	return d
}

// connectionString never quotes what it is given: that may hold a password.
func connectionString(s string) error {
	switch {
	case s == "":
		return nil // libpq's habits: PGHOST, sockets, ~/.pgpass
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("holds a control character or a second line")
	case strings.HasPrefix(s, "postgres://"), strings.HasPrefix(s, "postgresql://"):
		return nil
	case !strings.Contains(s, "://") && strings.Contains(s, "="):
		return nil
	}
	return errors.New("is no connection string (write postgres://USER@HOST/NAME, or host=HOST dbname=NAME)")
}

// maxPayload is as much as one row can well hold.
const maxPayload = 256 << 20

func payloadMax(s string) (int64, error) {
	n, err := ParseSize(s)
	if err == nil && (n < 1 || n > maxPayload) {
		err = fmt.Errorf("%s is out of bounds (want 1 to %s)", s, FormatSize(maxPayload))
	}
	return n, err
}

func redactRule(s string) (redact.Rule, error) {
	r, err := redact.Parse(s)
	if err != nil {
		err = fmt.Errorf("%w (write one such as $.student.* or $..email)", err)
	}
	return r, err
}

func statement(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", errors.New("is empty (want one SQL statement)")
	}
	return s, nil
}

// keys reads the references to signing keys and how they sign.
func (l *loader) keys(m *layer) map[string]Key {
	out := map[string]Key{}
	for _, name := range names(m, "keys") {
		current, previous := join("keys", name, "current"), join("keys", name, "previous")
		k := Key{Current: l.reference(m, current), Signature: l.signature(m, join("keys", name, "signature"))}
		if _, given := m.origins[previous]; given || len(names(m, previous)) > 0 {
			k.Previous = l.reference(m, previous)
			l.oneSignature(m, k, previous)
		}
		out[name] = k
	}
	return out
}

func (l *loader) reference(m *layer, path string) work.Reference {
	r := work.Reference{
		Env:  read(l, m, join(path, "env"), variableName),
		File: read(l, m, join(path, "file"), fileName),
	}
	_, env := m.values[join(path, "env")]
	_, file := m.values[join(path, "file")]
	if env == file && !l.problems.about(path) {
		l.problems.add(l.place(m, path), path, "want exactly one of env and file")
	}
	return r
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// keyPrefix begins a signing key as Standard Webhooks writes it.
const keyPrefix = "whsec_"

var errLiteral = errors.New("looks like the secret itself (write the name of a variable or a file that holds it)")

// variableName and fileName do not quote what they refuse: it may be the secret.
func variableName(s string) (string, error) {
	if strings.HasPrefix(s, keyPrefix) {
		return "", errLiteral
	}
	if len(s) > 255 || !variable.MatchString(s) {
		return "", errors.New("is no name of an environment variable")
	}
	return s, nil
}

func fileName(s string) (string, error) {
	if strings.HasPrefix(s, keyPrefix) {
		return "", errLiteral
	}
	if s == "" || strings.ContainsFunc(s, unicode.IsControl) {
		return "", errors.New("is no name of a file")
	}
	return s, nil
}

// moreThanZero refuses zero.
func moreThanZero[T interface{ ~int | ~int64 | ~float64 }](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := parse(s)
		if err == nil && v <= 0 {
			err = fmt.Errorf("%s is too little (want more than 0)", s)
		}
		return v, err
	}
}
