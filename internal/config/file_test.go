package config_test

import (
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/config"
)

func TestShapeOfTheFile(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{"unknown below a policy", "policies:\n  default:\n    max_atempts: 3\n", []string{"whctl.yaml:3: policies.default.max_atempts: unknown key (nearest known key: policies.default.max_attempts)"}},
		{"unknown below another policy", "policies: {slow: {time_out: 3s}}", []string{"policies.slow.time_out: unknown key (nearest known key: policies.slow.timeout)"}},
		{"unknown at the top", "polices: {}", []string{"whctl.yaml:1: polices: unknown key (nearest known key: policies)"}},
		{"swapped letters", "egress:\n\n  porxy: none", []string{"whctl.yaml:3: egress.porxy: unknown key (nearest known key: egress.proxy)"}},
		{"at the wrong level", "max_attempts: 3", []string{"max_attempts: unknown key (nearest known key: policies.default.max_attempts)"}},
		{"beside the policies", "policies: {max_attempts: 3}", []string{"policies.max_attempts: unknown key (nearest known key: policies.default.max_attempts)"}},
		{"among the retention policies", "retention: {redrive_windw: 14d}", []string{"retention.redrive_windw: unknown key (nearest known key: retention.redrive_window)"}},
		{"deep", "policies: {a: {backoff: {caps: 1s}}}", []string{"policies.a.backoff.caps: unknown key (nearest known key: policies.a.backoff.cap)"}},
		{"every one is told", "a: 1\nredact: []\nb: 2", []string{"whctl.yaml:1: a: unknown key", "whctl.yaml:3: b: unknown key"}},
		{"hostile key", `"a\x1b[2J\nb": 1`, []string{`whctl.yaml:1: a\x1b[2J\nb: unknown key`}},
		{"long key", strings.Repeat("x", 900) + ": 1", []string{"unknown key"}},
		{"twice", "enqueue:\n  payload_max: 1\n  payload_max: 2\n", []string{"whctl.yaml:3: enqueue.payload_max: set a second time (first in line 2)"}},
		{"twice at the top", "redact: []\nredact: []", []string{"whctl.yaml:2: redact: set a second time (first in line 1)"}},
		{"no group", "database: postgres://u:hunter2@h/", []string{"whctl.yaml:1: database: want a group of keys (statement_timeout, url, url_file)"}},
		{"no group under a name", "keys: {enrolment: whsec_hunter2}", []string{"keys.enrolment: want a group of keys (current, previous, signature)"}},
		{"a literal key", "keys: {enrolment: {current: whsec_hunter2}}", []string{"keys.enrolment.current: want a group of keys (env, file)"}},
		{"no list", "redact: $.a", []string{"redact: want a list (write it in square brackets)"}},
		{"a list", "enqueue: {payload_max: [1]}", []string{"enqueue.payload_max: want a single value"}},
		{"a list in a list", "redact: [[a]]", []string{"redact: want a single value"}},
		{"no value", "enqueue: {payload_max: }", []string{"enqueue.payload_max: has no value (leave the key out to keep the default)"}},
		{"no value in a list", "redact: [~]", []string{"redact: has no value"}},
		{"tag", "database: {url: !secret hunter2}", []string{"database.url: has a tag, and tags are not known here"}},
		{"merge key", "policies:\n  a: &a {timeout: 1s}\n  b:\n    <<: *a\n", []string{"whctl.yaml:4: policies.b: a key must be a plain word"}},
		{"composed key", "{? [a] : b}", []string{"whctl.yaml:1: a key must be a plain word"}},
		{"name with a blank", "policies: {a b: {}}", []string{"policies.a b: not a usable name"}},
		{"name too long", "policies: {" + strings.Repeat("x", 257) + ": {}}", []string{"not a usable name"}},
		{"not a mapping", "- a", []string{"whctl.yaml:1: want a group of keys (database, egress"}},
		{"no YAML", "a: b: c", []string{"whctl.yaml:1: no YAML: mapping values are not allowed in this context"}},
		{"no YAML, later", "redact: []\nenqueue: [}", []string{"whctl.yaml:2: no YAML: did not find expected"}},
		{"no UTF-8", "a: \xff", []string{"whctl.yaml: no YAML: "}},
		{"a password that begins with a star", "database: {url: *hunter2}", []string{"no YAML: an alias without its anchor"}},
		{"two documents", "redact: []\n---\nredact: []\n", []string{"whctl.yaml:2: a second document"}},
		{"second document is no YAML", "redact: []\n---\n[}\n", []string{"whctl.yaml:3: no YAML"}},
		{"empty", "", nil},
		{"empty document", "---\n", nil},
		{"empty groups", "database:\npolicies:\n  a:\nretention: {}\nkeys:\n", nil},
		{"alias", "policies:\n  a: {backoff: &b {type: fixed, delay: 1m}}\n  c: {backoff: *b, timeout: &t 9s}\n  d: {timeout: *t, retry_status: [&s 409, *s]}", nil},
		{"circular alias", "policies: &p {a: *p}", []string{"policies.a.a: unknown key"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(file(tt.yaml).options())
			wantProblems(t, err, tt.want...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("quotes the secret")
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("%d bytes of message", len(err.Error()))
			}
		})
	}
}

// What YAML would read as a number, a date or a truth value stays what was written.
func TestValuesAreTakenAsWritten(t *testing.T) {
	c := file("keys: {yes: {current: {file: 010}}}\nreconcile: {1e3: {query: 2024-01-01}}\nguards: {no: true}").load(t)
	if c.Keys["yes"].Current.File != "010" || c.Reconcile["1e3"].Query != "2024-01-01" || c.Guards["no"] != "true" {
		t.Errorf("%+v", c)
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	c := file("policies:\n  a: {backoff: &b {type: fixed, delay: 1m}}\n  c: {backoff: *b, timeout: &t 9s}\n  d: {timeout: *t}").load(t)
	if c.Policies["c"].Backoff.Delay != time.Minute || c.Policies["d"].Timeout != 9*time.Second {
		t.Errorf("%+v", c.Policies)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("policies: {a: {extends: b}, b: {extends: a}}", "WHCTL_POLICIES__A__TIMEOUT", "1s")
	f.Add("a: &a {b: *a}\n<<: *a", "WHCTL_", "x")
	f.Add("retention: {d: {version: 1, keep: 6m, states: [dead]}}", "WHCTL_DATABASE_URL", "postgres://u:p@h/")
	f.Fuzz(func(t *testing.T, yaml, name, text string) {
		w := file(yaml)
		w.env = map[string]string{name: text}
		c, err := config.Load(w.options())
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
		if err == nil {
			for _, p := range c.Policies {
				if err := p.Validate(); err != nil {
					t.Error(err)
				}
			}
			c.Settings()
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if line == "" || len(line) > 3000 || strings.ContainsAny(line, "\x1b\x00\r") {
				t.Errorf("a problem's line: %q", line)
			}
		}
	})
}
