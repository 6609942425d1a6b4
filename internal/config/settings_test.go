package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The golden file is made anew with UPDATE_GOLDEN=1.
func TestSettings(t *testing.T) {
	w := file(`database:
  url: postgres://app:hunter2@db.internal:5432/app?sslmode=verify-full&sslpassword=hunter2
policies:
  default:
    lease: 90s
  five-minutes:
    backoff: {type: fixed, delay: 5m}
    timeout: 20s
egress:
  allow_hosts: [hooks.example.org, "*.partner.example"]
  proxy: http://u:hunter2@proxy.example.org:3128
keys:
  enrolment: {current: {env: ENROLMENT_KEY}}
guards:
  reservation.expired: select true
retention:
  dead: {version: 1, states: [dead], keep: 180d}
`)
	w.env = map[string]string{"WHCTL_OPERATOR": "jo", "WHCTL_POLICIES__FIVE_MINUTES__MAX_ATTEMPTS": "12"}
	w.flags = map[string]string{"database.statement_timeout": "5s"}
	c := w.load(t)
	var b strings.Builder
	for _, s := range c.Settings() {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", s.Path, s.Value, s.Origin)
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Error("shows a secret")
	}
	const golden = "testdata/settings.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
	if c.Settings()[0].Path = "x"; c.Settings()[0].Path == "x" {
		t.Error("a caller can change the settings of another")
	}
}
