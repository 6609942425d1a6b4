package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file and a secret's file, in bytes.
const maxFile = 1 << 20

// readFile finds, reads and takes apart the configuration file. No file is fine unless
// one was named.
func (l *loader) readFile() *layer {
	out := newLayer()
	name, data := l.findFile()
	if name == "" {
		return out
	}
	l.file = name
	l.parseFile(name, data, out)
	return out
}

func (l *loader) findFile() (name string, data []byte) {
	named := func(name string, at origin) (string, []byte) {
		data, err := l.ReadFile(name)
		if err != nil {
			l.problems.add(at, "", "the configuration file cannot be read: %v", err)
			return "", nil
		}
		return name, data
	}
	if l.Path != "" {
		return named(l.Path, origin{rank: byFlag, where: "flag --config"})
	}
	if name, _ := l.LookupEnv(envConfig); name != "" {
		return named(name, origin{rank: byEnvironment, where: "environment " + envConfig})
	}
	for _, name := range l.searched() {
		data, err := l.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) && hidden(name) {
			continue
		}
		if err != nil {
			l.problems.add(origin{rank: byFile, where: name}, "", "it is there, but cannot be read: %v", err)
			return "", nil
		}
		return name, data
	}
	return "", nil
}

// hidden says that name, which could not be read, lies in a folder that this user may not look into: nobody meant
// it for them. (A file that is there and may not be read is another thing.)
func hidden(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrPermission)
}

// searched lists where a file may lie that nobody named, in the order of looking.
func (l *loader) searched() []string {
	names := []string{filepath.Join(l.Dir, "whctl.yaml")}
	home, _ := l.LookupEnv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(home) { // the XDG specification: a relative one is ignored
		if user, _ := l.LookupEnv("HOME"); filepath.IsAbs(user) {
			home = filepath.Join(user, ".config")
		} else {
			home = ""
		}
	}
	if home != "" {
		names = append(names, filepath.Join(home, "whctl", "whctl.yaml"))
	}
	return append(names, "/etc/whctl/whctl.yaml")
}

// readBounded refuses what is longer than maxFile: it is something else.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return data, nil
}

// parseFile takes one YAML document apart.
func (l *loader) parseFile(name string, data []byte, out *layer) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return // empty, or comments only
	}
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			l.problems.add(inFile(name, &more), "", "a second document (a configuration is one; take the --- out)")
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		line, what := yamlProblem(err)
		l.problems.add(origin{rank: byFile, where: name + line, line: 1}, "", "no YAML: %s", what)
		return
	}
	w := &walker{loader: l, name: name, out: out}
	w.group("", l.schema, doc.Content[0])
}

// yamlProblem takes the line out of the parser's message, and the name of an anchor:
// a password that begins with a star reads as one. The parser leaves line 1 out, and
// counts from 0 where it did not find what it expected.
func yamlProblem(err error) (line, what string) {
	what = strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: ")
	n := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(what); m != nil {
		what = strings.TrimPrefix(what, m[0])
		n, _ = strconv.Atoi(m[1]) // digits
		if strings.HasPrefix(what, "did not find expected") {
			n++
		}
	}
	switch {
	case strings.Contains(what, "anchor"):
		what = "an alias without its anchor (quote a text that begins with a star)"
	case strings.Contains(what, "UTF-8"), strings.Contains(what, "control characters"):
		return "", what // told without a line
	}
	return ":" + strconv.Itoa(n), what
}

func inFile(name string, n *yaml.Node) origin {
	return origin{rank: byFile, where: name + ":" + strconv.Itoa(n.Line), line: n.Line}
}
