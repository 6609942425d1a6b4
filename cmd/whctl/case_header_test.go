package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// H19: a tenant's header that cannot be sent.
func TestH19ATenantsHeaderThatCannotBeSent(t *testing.T) {
	b := newBench(t)
	defer b.check()
	inFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(inFile, []byte("s3cret\r\nX-Evil: 1\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env = []string{"TOKEN=s3cret\r\nX-Evil: 1", "GOOD=s3cret"}
	headers := map[string]string{
		"value": `{"X-Token": {"env": "TOKEN"}}`, "file": `{"X-Token": {"file": "` + inFile + `"}}`, "name": `{"X Bad": {"env": "GOOD"}}`,
		"good": `{"X-Token": {"env": "GOOD"}}`,
	}
	at := map[string]*testbed.Endpoint{}
	for name, h := range headers {
		at[name] = b.receiver(name, testbed.Answer(200))
		testbed.Exec(t, b.db, `UPDATE whctl.destinations SET headers = $2::jsonb WHERE name = $1`, name, h)
		b.put(name, name, `{}`)
	}
	apply := filepath.Join(t.TempDir(), "destinations.yaml")
	text := "destinations: [{name: name, url: '" + at["name"].URL + "', headers: {X Bad: {env: GOOD}}}]"
	if err := os.WriteFile(apply, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := b.must(78, "destination", "apply", "-f", apply); !strings.Contains(res.Stderr, `header "X Bad" is no header name`) {
		t.Errorf("apply says %s", res.Stderr)
	}
	res := b.must(0, "deliver", "--once", "-o", "json", "--log-level", "debug")
	if s := b.summaryOf(res); s.Delivered != 1 || s.Dead != 3 || s.ByClass["invalid"] != 3 {
		t.Errorf("summary %+v", s)
	}
	for name, r := range at {
		if name == "good" {
			if r.Count() != 1 || r.Requests()[0].Header.Get("X-Token") != "s3cret" || b.status(name, "state") != "delivered" {
				t.Errorf("the good one: %d requests, %s", r.Count(), b.status(name, "state"))
			}
			continue
		}
		if n := r.Connections(); n != 0 {
			t.Errorf("%s: %d connections", name, n)
		}
		shown := b.must(0, "show", name, "-o", "json").Stdout
		for _, part := range []string{`"state":"dead"`, `"class":"invalid"`, `"status":null`, `"reason":"invalid"`, `header \"X`} {
			if !strings.Contains(shown, part) {
				t.Errorf("%s: %s is not in %s", name, part, shown)
			}
		}
		if all := shown + res.Stdout + res.Stderr; strings.Contains(all, "s3cret") || strings.Contains(all, "Evil") {
			t.Errorf("%s: the value is quoted in %s", name, all)
		}
	}
}
