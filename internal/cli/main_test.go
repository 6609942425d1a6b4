package cli

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// call is one call of the command line, in this process.
type call struct {
	db    *testbed.Database // nil: none
	env   map[string]string
	in    string
	tty   bool // all three streams
	args  []string
	width string
	// completeWithin is as long as a slow machine needs, where 0.
	completeWithin time.Duration
}

// answer is what came of it.
type answer struct {
	out, err string
	code     int
}

func (c call) run(t *testing.T) answer {
	t.Helper()
	s, in, out, err := console.Test()
	in.WriteString(c.in)
	s.InTTY, s.OutTTY, s.ErrTTY = c.tty, c.tty, c.tty
	s.LookupEnv = func(name string) (string, bool) {
		v, ok := c.env[name]
		if name == "WHCTL_DATABASE_URL" && c.db != nil && !ok {
			return c.db.URL, true
		}
		if name == "COLUMNS" && c.width != "" {
			return c.width, true
		}
		return v, ok
	}
	a := &app{io: s, version: "test", readFile: notTheMachines, completeWithin: c.completeWithin}
	if a.completeWithin == 0 {
		a.completeWithin = time.Minute
	}
	code := a.main(c.args)
	return answer{out.String(), err.String(), code}
}

// notTheMachines reads files, but none that the machine's own administrator put there.
func notTheMachines(name string) ([]byte, error) {
	if strings.HasPrefix(name, "/etc/") {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile(name)
}

// run calls whctl on d and wants this exit code.
func run(t *testing.T, d *testbed.Database, code int, args ...string) answer {
	t.Helper()
	got := call{db: d, args: args}.run(t)
	if got.code != code {
		t.Fatalf("whctl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got.code, code, got.out, got.err)
	}
	return got
}

// decode reads JSON output, and fails on a field that T does not have.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(bytes.NewBufferString(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if dec.More() {
		t.Fatalf("more than one document: %s", text)
	}
	return v
}

// timeless is text with every time in it written T.
func timeless(text string) string {
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`).ReplaceAllString(text, "T")
}

// has fails where text lacks one of the parts.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}
