package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"example.com/whctl/internal/config"
)

// The reference of the configuration names every key with its default: read with or
// without the lines that are comments, it is valid, and as it stands it changes nothing.
func TestTheConfigurationReference(t *testing.T) {
	const path = "../../deploy/whctl.yaml"
	empty := func(string) (string, bool) { return "", false }
	got, err := config.Load(config.Options{Path: path, LookupEnv: empty})
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Load(config.Options{Dir: t.TempDir(), ReadFile: notTheMachines, LookupEnv: func(name string) (string, bool) {
		if name == "XDG_CONFIG_HOME" {
			return t.TempDir(), true
		}
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, s := range want.Settings() {
		values[s.Path] = s.Value
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Settings() {
		if values[s.Path] != s.Value {
			t.Errorf("%s is %q in the reference, by default %q", s.Path, s.Value, values[s.Path])
		}
	}
	for path := range values {
		key := path[strings.LastIndex(path, ".")+1:]
		if !regexp.MustCompile(`\b`+regexp.QuoteMeta(key)+`\b`).Match(text) && !strings.HasPrefix(path, "retention.") {
			t.Errorf("the reference does not name %s", path)
		}
	}
}
