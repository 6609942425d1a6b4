package cli

import (
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestConfigShow(t *testing.T) {
	path := testbed.Config(t, "policies:\n  default:\n    timeout: 7s\n")
	c := call{args: []string{"config", "show", "--config", path, "-o", "json", "--database-url", "postgres://app:s3cr3t@db/app"}}
	got := c.run(t)
	if got.code != 0 || got.err != "" {
		t.Fatalf("%+v", got)
	}
	values := map[string][2]string{}
	for _, s := range decode[[]map[string]string](t, got.out) {
		values[s["path"]] = [2]string{s["value"], s["origin"]}
	}
	for path, want := range map[string][2]string{
		"policies.default.timeout":      {"7s", "file " + path + ":3"},
		"policies.default.max_attempts": {"8", "default"},
		"database.url":                  {"postgres://app:*****@db/app", "flag --database-url"},
	} {
		if values[path] != want {
			t.Errorf("%s: %v, want %v", path, values[path], want)
		}
	}
	if strings.Contains(got.out, "s3cr3t") {
		t.Error("a password is printed")
	}
	has(t, run(t, nil, 0, "config", "show", "--config", path).out, "PATH", "VALUE", "ORIGIN", "policies.default.timeout")
}

func TestConfigValidate(t *testing.T) {
	good := testbed.Config(t, "policies:\n  default:\n    timeout: 7s\n")
	if got := run(t, nil, 0, "config", "validate", "--config", good); got.out != good+" is valid\n" || got.err != "" {
		t.Errorf("%+v", got)
	}
	if got := run(t, nil, 0, "config", "validate", "--config", good, "--quiet"); got.out+got.err != "" {
		t.Errorf("%+v", got)
	}
	has(t, run(t, nil, 0, "config", "validate").out, "there is no configuration file")
	bad := testbed.Config(t, "policies:\n  default:\n    timeout: 70s\n    polciy: 1\negress:\n  ports: [0]\n")
	got := run(t, nil, 78, "config", "validate", "--config", bad)
	if got.out != "" {
		t.Errorf("stdout %q", got.out)
	}
	has(t, got.err, bad+":3", bad+":4", bad+":6", "nearest known key")
	if lines := strings.Count(got.err, "\n"); lines != 3 {
		t.Errorf("%d lines for three problems:\n%s", lines, got.err)
	}
	has(t, run(t, nil, 78, "config", "validate", "--config", testbed.Config(t, "egress: {ca_file: /nosuch/ca.pem}")).err, "ca_file")
}
