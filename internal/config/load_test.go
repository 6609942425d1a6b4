package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// world is all that Load can see.
type world struct {
	files map[string]string
	env   map[string]string
	flags map[string]string
	path  string
	dir   string
}

func (w world) options() config.Options {
	return config.Options{
		Path: w.path, Dir: w.dir, Flags: w.flags,
		LookupEnv: func(name string) (string, bool) { v, ok := w.env[name]; return v, ok },
		Environ: func() []string {
			var lines []string
			for name, text := range w.env {
				lines = append(lines, name+"="+text)
			}
			return lines
		},
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := w.files[name]; ok {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		},
	}
}

func (w world) load(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(w.options())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// file is a world with one configuration file.
func file(text string) world {
	return world{files: map[string]string{"whctl.yaml": text}}
}

// wantProblems holds the lines of err against want, in order. A wanted line is a part
// of the one it stands for.
func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	if len(want) == 0 {
		if err != nil {
			t.Errorf("unexpected:\n%v", err)
		}
		return
	}
	if !errors.Is(err, work.ErrConfig) {
		t.Fatalf("%v does not wrap ErrConfig, want %q", err, want)
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range max(len(lines), len(want)) {
		switch {
		case i >= len(lines):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("too much: %s", lines[i])
		case !strings.Contains(lines[i], want[i]):
			t.Errorf("got  %s\nwant %s", lines[i], want[i])
		}
	}
}

func TestNothingConfigured(t *testing.T) {
	c := world{}.load(t)
	if diff := cmp.Diff(policy.Default(), c.Policies["default"], cmp.Comparer(func(a, b policy.StatusSet) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if len(c.Policies) != 1 || c.File != "" || c.Operator != "" || len(c.Keys)+len(c.Guards)+len(c.Reconcile)+len(c.Redact)+len(c.Retention.Policies) != 0 {
		t.Errorf("%+v", c)
	}
	if c.Database != (config.Database{StatementTimeout: 30 * time.Second}) || c.Enqueue.PayloadMax != 262144 || c.Retention.RedriveWindow != 14*24*time.Hour {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff(config.Egress{RequireHTTPS: true, Proxy: "none"}, c.Egress); diff != "" {
		t.Error(diff)
	}
}

// The sample of the documentation is a configuration that works.
func TestSample(t *testing.T) {
	text, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := file(string(text)).load(t)

	if c.File != "whctl.yaml" || c.Database.URL != "postgres:///app" {
		t.Errorf("%+v", c.Database)
	}
	p := policy.Default()
	p.Rate = policy.Rate{N: 50, Per: time.Second}
	sets := cmp.Comparer(func(a, b policy.StatusSet) bool { return a == b })
	if diff := cmp.Diff(p, c.Policies["default"], sets); diff != "" {
		t.Error(diff)
	}
	p.Name, p.Backoff = "five-minutes", policy.Backoff{Kind: policy.Fixed, Delay: 5 * time.Minute, Jitter: 0.2}
	if diff := cmp.Diff(p, c.Policies["five-minutes"], sets); diff != "" {
		t.Error(diff)
	}
	want := map[string]config.RetentionPolicy{
		"delivered": {Name: "delivered", Version: 3, Target: "deliveries", States: []work.State{work.Delivered, work.Cancelled, work.Discarded}, Keep: 30 * 24 * time.Hour, Batch: 1000},
		"dead":      {Name: "dead", Version: 1, Target: "deliveries", States: []work.State{work.Dead}, Keep: 180 * 24 * time.Hour, Batch: 1000, ArchiveDir: "/var/lib/whctl/archive"},
		"attempts":  {Name: "attempts", Version: 1, Target: "attempts", Keep: 14 * 24 * time.Hour, Batch: 1000},
	}
	if diff := cmp.Diff(want, c.Retention.Policies); diff != "" {
		t.Error(diff)
	}
	key := config.Key{Current: work.Reference{Env: "ENROLMENT_KEY"}, Previous: work.Reference{File: "/run/secrets/enrolment-old"}, Signature: work.Signature{Type: work.StandardWebhooks}}
	if diff := cmp.Diff(map[string]config.Key{"enrolment": key}, c.Keys); diff != "" {
		t.Error(diff)
	}
	if got := fmt.Sprint(c.Redact); got != "[$.student.* $..email $..phone]" {
		t.Error(got)
	}
	if g := c.Guards["reservation.expired"]; !strings.HasPrefix(g, "select exists(") || len(c.Guards) != 1 {
		t.Errorf("%q", c.Guards)
	}
	if s := c.Reconcile["stale-enrolments"]; s.Limit != 1000 || !strings.HasPrefix(s.Query, "select … as tenant") {
		t.Errorf("%+v", s)
	}
}

func TestPrecedence(t *testing.T) {
	const path = "policies.default.max_attempts"
	w := world{}
	check := func(attempts int, origin string) {
		t.Helper()
		c := w.load(t)
		if got := c.Policies["default"].MaxAttempts; got != attempts {
			t.Errorf("%d, want %d", got, attempts)
		}
		for _, s := range c.Settings() {
			if s.Path == path && (s.Origin != origin || s.Value != fmt.Sprint(attempts)) {
				t.Errorf("%+v, want origin %q", s, origin)
			}
		}
	}
	check(8, "default")
	w.files = map[string]string{"whctl.yaml": "policies:\n  default:\n    max_attempts: 7\n"}
	check(7, "file whctl.yaml:3")
	w.env = map[string]string{"WHCTL_POLICIES__DEFAULT__MAX_ATTEMPTS": "6"}
	check(6, "environment WHCTL_POLICIES__DEFAULT__MAX_ATTEMPTS")
	w.flags = map[string]string{path: "5"}
	check(5, "flag --policies-default-max-attempts")
}

func TestPrecedenceOfTheDatabase(t *testing.T) {
	const inFile, inSecret = "database: {url: 'postgres://file/'}", "postgres://secret/"
	tests := []struct {
		name   string
		w      world
		want   string
		origin string
	}{
		{"file", world{files: map[string]string{"whctl.yaml": inFile}}, "postgres://file/", "file whctl.yaml:1"},
		{"environment", world{files: map[string]string{"whctl.yaml": inFile}, env: map[string]string{"WHCTL_DATABASE_URL": "postgres://env/"}}, "postgres://env/", "environment WHCTL_DATABASE_URL"},
		{"flag", world{env: map[string]string{"WHCTL_DATABASE_URL": "postgres://env/"}, flags: map[string]string{"database.url": "postgres://flag/"}}, "postgres://flag/", "flag --database-url"},
		{"a secret's file by flag", world{files: map[string]string{"s": inSecret}, env: map[string]string{"WHCTL_DATABASE_URL": "postgres://env/"}, flags: map[string]string{"database.url_file": "s"}}, inSecret, "flag --database-url-file"},
		{"a secret's file in the file", world{files: map[string]string{"whctl.yaml": "database: {url_file: /s}", "/s": "\n" + inSecret + " \n"}}, inSecret, "file whctl.yaml:1"},
		{"above a secret's file", world{files: map[string]string{"whctl.yaml": "database: {url_file: /missing}"}, env: map[string]string{"WHCTL_DATABASE_URL": "postgres://env/"}}, "postgres://env/", "environment WHCTL_DATABASE_URL"},
		{"an empty variable", world{files: map[string]string{"whctl.yaml": inFile}, env: map[string]string{"WHCTL_DATABASE_URL": ""}}, "postgres://file/", "file whctl.yaml:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.w.load(t)
			if c.Database.URL != tt.want {
				t.Errorf("%q, want %q", c.Database.URL, tt.want)
			}
			for _, s := range c.Settings() {
				if s.Path == "database.url" && s.Origin != tt.origin {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

func TestWhichFile(t *testing.T) {
	all := map[string]string{
		"named.yaml": "", "env.yaml": "", "here/whctl.yaml": "", "/xdg/whctl/whctl.yaml": "", "/home/u/.config/whctl/whctl.yaml": "", "/etc/whctl/whctl.yaml": "",
	}
	env := map[string]string{"WHCTL_CONFIG": "env.yaml", "XDG_CONFIG_HOME": "/xdg", "HOME": "/home/u"}
	w := world{files: all, env: env, path: "named.yaml", dir: "here"}
	check := func(want string) {
		t.Helper()
		if got := w.load(t).File; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		delete(all, want)
	}
	check("named.yaml")
	w.path = ""
	check("env.yaml")
	delete(env, "WHCTL_CONFIG")
	check("here/whctl.yaml")
	check("/xdg/whctl/whctl.yaml")
	env["XDG_CONFIG_HOME"] = "relative"
	check("/home/u/.config/whctl/whctl.yaml")
	delete(env, "HOME")
	check("/etc/whctl/whctl.yaml")
	check("")

	w.path = "gone.yaml"
	_, err := config.Load(w.options())
	wantProblems(t, err, "flag --config: the configuration file cannot be read: open gone.yaml")
	w.path, env["WHCTL_CONFIG"] = "", "gone.yaml"
	_, err = config.Load(w.options())
	wantProblems(t, err, "environment WHCTL_CONFIG: the configuration file cannot be read: open gone.yaml")
}

func TestRealFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "whctl.yaml")
	options := config.Options{Dir: dir}
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("WHCTL_CONFIG", "")
	t.Setenv("WHCTL_ENQUEUE__PAYLOAD_MAX", "1MB")
	t.Setenv("WHCTL_OPERATOR", " jo ")

	write("# comments only\n")
	c, err := config.Load(options)
	if err != nil || c.File != name || c.Enqueue.PayloadMax != 1_000_000 || c.Operator != "jo" {
		t.Errorf("%+v, %v", c, err)
	}
	write("# " + strings.Repeat("x", 1<<20))
	_, err = config.Load(options)
	wantProblems(t, err, name+": it is there, but cannot be read: "+name+" is larger than 1048576 bytes")
	_, err = config.Load(config.Options{Path: dir})
	wantProblems(t, err, "flag --config: the configuration file cannot be read: read "+dir)
	// A file where a folder should be is as good as nothing.
	t.Setenv("XDG_CONFIG_HOME", name)
	_, err = config.Load(config.Options{Dir: name})
	wantProblems(t, err)
}

func BenchmarkLoad(b *testing.B) {
	text, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		b.Fatal(err)
	}
	o := file(string(text)).options()
	for b.Loop() {
		if _, err := config.Load(o); err != nil {
			b.Fatal(err)
		}
	}
}
