package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

const destinationsConfig = `
policies:
  raw: {extends: default, body: raw}
keys:
  enrolment: {current: {env: ENROLMENT_KEY}}
`

// bench is a database and a configuration.
type bench struct {
	*testing.T
	db     *testbed.Database
	config string
}

func newBench(t *testing.T, config string) bench {
	return bench{t, testbed.DB(t), testbed.Config(t, config)}
}

func (b bench) run(code int, args ...string) answer {
	b.Helper()
	return run(b.T, b.db, code, append([]string{"--config", b.config}, args...)...)
}

// file writes a destinations file.
func (b bench) file(text string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "destinations.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

const twoDestinations = `
destinations:
  - name: seats
    url: https://hooks.example/hook/TOK-5542?token=Q-9910
  - name: enrolment
    url: https://enrolment.example
    policy: raw
    key: enrolment
    max_in_flight: 4
    rate: 50/s
    headers: {X-Token: {env: TOKEN}, X-Other: {file: /run/secrets/other}}
    tenants: [acme, "a,b"]
`

// changesOf is -o json of apply as "name action field,…".
func changesOf(t *testing.T, out string) string {
	t.Helper()
	var parts []string
	for _, c := range decode[[]changeJSON](t, out) {
		var fields []string
		for _, f := range c.Changes {
			fields = append(fields, f.Field)
		}
		parts = append(parts, strings.TrimSpace(c.Name+" "+string(c.Action)+" "+strings.Join(fields, ",")))
	}
	return strings.Join(parts, "; ")
}

func TestDestinationApplyListShowRemove(t *testing.T) {
	b := newBench(t, destinationsConfig)
	file := b.file(twoDestinations)
	got := changesOf(t, b.run(0, "destination", "apply", "-f", file, "-o", "json").out)
	if want := "enrolment created url,policy,key,max_in_flight,rate,headers,tenants,body,payload_max; seats created url,policy,body,payload_max"; got != want {
		t.Errorf("first:\n%s, want\n%s", got, want)
	}
	if got := changesOf(t, b.run(0, "destination", "apply", "-f", file, "-o", "json").out); got != "enrolment unchanged; seats unchanged" {
		t.Errorf("again: %s", got)
	}
	common := `"url":"https://enrolment.example","policy":"raw","key":"enrolment","max_in_flight":4,"rate":"50/s",` +
		`"headers":{"X-Other":{"file":"/run/secrets/other"},"X-Token":{"env":"TOKEN"}},"tenants":["acme","a,b"],"body":"raw","payload_max":262144,` +
		`"created_at":"T","updated_at":"T","paused":false,"paused_reason":null,"paused_by":null,"paused_at":null,"circuit":"closed","open_until":null,"retry_after_until":null,` +
		`"not_ready_here":"key \"enrolment\": environment variable ENROLMENT_KEY is not set"`
	want := `{"name":"enrolment",` + common + `,"in_flight":0,"due":0,"scheduled":0,"stuck":0,"dead":0,` +
		`"effective_max_in_flight":4,"effective_rate":"50/s","held":[]}` + "\n"
	if got := timeless(b.run(0, "destination", "show", "enrolment", "-o", "json").out); got != want {
		t.Errorf("show:\n%swant\n%s", got, want)
	}
	if names := b.run(0, "destination", "list", "-o", "name").out; names != "enrolment\nseats\n" {
		t.Errorf("names: %q", names)
	}
	want = `[{"name":"enrolment",` + common + "},\n" + `{"name":"seats","url":"https://hooks.example/…","policy":"default","key":null,"max_in_flight":null,` +
		`"rate":null,"headers":{},"tenants":[],"body":"envelope","payload_max":262144,"created_at":"T","updated_at":"T",` +
		`"paused":false,"paused_reason":null,"paused_by":null,"paused_at":null,"circuit":"closed","open_until":null,"retry_after_until":null,"not_ready_here":null}]` + "\n"
	if got := timeless(b.run(0, "destination", "list", "-o", "json").out); got != want {
		t.Errorf("list:\n%swant\n%s", got, want)
	}
	has(t, b.run(0, "destination", "show", "enrolment").out, "X-Other: file /run/secrets/other, X-Token: env TOKEN", "In flight:")
	has(t, b.run(0, "destination", "remove", "enrolment").out, "removed", "enrolment")
	has(t, b.run(4, "destination", "show", "enrolment").err, `destination "enrolment": not found`)
	b.run(4, "destination", "remove", "enrolment")
}

// The body and the payload limit stand in the row for the SQL function, and follow the
// configuration at the next apply.
func TestDestinationApplyStoresWhatTheSQLFunctionNeeds(t *testing.T) {
	b := newBench(t, destinationsConfig)
	file := b.file("destinations: [{name: a, url: 'https://a.example', policy: raw}]")
	b.run(0, "destination", "apply", "-f", file)
	testbed.Exec(t, b.db, `SELECT whctl.enqueue('a', 'e', 's', 'no json')`)
	b.config = testbed.Config(t, "enqueue: {payload_max: 4}\npolicies: {raw: {body: envelope}}")
	got := b.run(0, "destination", "apply", "-f", file, "-o", "json").out
	has(t, got, `{"field":"body","from":"raw","to":"envelope"}`, `{"field":"payload_max","from":"262144","to":"4"}`)
	if _, err := b.db.Admin.ExecContext(t.Context(), `SELECT whctl.enqueue('a', 'e', 's2', '12345')`); err == nil {
		t.Error("a payload above the limit was taken")
	}
	if _, err := b.db.Admin.ExecContext(t.Context(), `SELECT whctl.enqueue('a', 'e', 's3', 'nope')`); err == nil {
		t.Error("a payload that is no JSON was taken")
	}
}

// Secrets in paths and queries are printed by nothing but --reveal-url.
func TestDestinationURLsAreNotPrinted(t *testing.T) {
	b := newBench(t, destinationsConfig)
	file := b.file(twoDestinations)
	testbed.Exec(t, b.db, `INSERT INTO whctl.destinations (name, url) VALUES ('by-hand', 'https://user:Pw-7731@hooks.example/hook/TOK-5542?token=Q-9910'),
		('broken', 'https://user:Pw-7731@[bro ken/TOK-5542'), ('opaque', 'mailto:TOK-5542'), ('seats', 'https://hooks.example/TOK-5542/old')`)
	for _, args := range [][]string{
		{"destination", "apply", "-f", file},
		{"destination", "apply", "-f", file, "-o", "json"},
		{"destination", "list", "-o", "wide"},
		{"destination", "list", "-o", "json"},
		{"destination", "list", "-o", "csv"},
		{"destination", "show", "seats"},
		{"destination", "show", "by-hand", "-o", "json"},
		{"destination", "show", "broken"},
		{"destination", "show", "opaque"},
		{"destination", "apply", "-f", b.file("destinations: [{name: x, url: 'https://u:Pw-7731@h.example/TOK-5542?q=Q-9910'}]")},
	} {
		got := call{db: b.db, args: append([]string{"--config", b.config, "--log-level", "debug"}, args...)}.run(t)
		for _, secret := range []string{"Pw-7731", "TOK-5542", "Q-9910"} {
			if strings.Contains(got.out+got.err, secret) {
				t.Errorf("%v printed %s:\n%s%s", args, secret, got.out, got.err)
			}
		}
	}
	has(t, b.run(0, "destination", "list").out, "https://hooks.example/…", "https://enrolment.example ")
	got := b.run(0, "destination", "show", "by-hand", "--reveal-url", "-o", "json").out
	has(t, got, `"url":"https://hooks.example/hook/TOK-5542?token=Q-9910"`)
	if strings.Contains(got, "Pw-7731") {
		t.Errorf("a password is never printed: %s", got)
	}
}

func TestDestinationFileIsRefusedWhole(t *testing.T) {
	b := newBench(t, destinationsConfig)
	file := b.file(`destinations:
  - name: good
    url: https://good.example/
  - name: good
    url: ftp://bad.example/
    polciy: default
    policy: nosuch
    key: nokey
    rate: 5/fortnight
    max_in_flight: 0
    headers: {X-Token: s3cr3t-literal, Webhook-Id: {env: A}, X-Both: {env: A, file: /b}, X-Value: {env: "s3cr3t value"}, X-Near: {file: tok}}
  - url: http://127.0.0.1/
    name: -bad name
    policy:
  - {}
unknown: 1
`)
	got := b.run(78, "destination", "apply", "-f", file)
	if got.out != "" {
		t.Errorf("stdout: %s", got.out)
	}
	has(t, got.err, "nothing was applied",
		`:4: destinations[1].name: "good" is there already, in line 2`,
		":5: destinations[1].url: the URL's scheme",
		`:6: destinations[1]: unknown key "polciy" (nearest known key: policy)`,
		`:7: destinations[1].policy: "nosuch" is not configured (configured: default, raw)`,
		`:8: destinations[1].key: "nokey" is not configured (configured: enrolment)`,
		`:9: destinations[1].rate: "5/fortnight" is no rate`,
		`:10: destinations[1].max_in_flight: "0" is out of bounds`,
		":11: destinations[1].headers.X-Token: a literal value is refused",
		`:11: destinations[1].headers: header "Webhook-Id" is whctl's own`,
		":11: destinations[1].headers.X-Both: want exactly one of env and file",
		":11: destinations[1].headers.X-Value.env: want the name of an environment variable",
		":11: destinations[1].headers.X-Near.file: want a path from the root",
		":12: destinations[2].url: http is refused by egress.require_https",
		":13: destinations[2].name: want 1 to 63",
		":15: destinations[3].url: there is none",
		`:16: the file: unknown key "unknown" (nearest known key: destinations)`)
	if strings.Contains(got.err, "s3cr3t") {
		t.Errorf("a secret is printed:\n%s", got.err)
	}
	for _, line := range strings.Split(strings.TrimSpace(got.err), "\n") {
		if !strings.HasPrefix(line, "whctl: ") {
			t.Errorf("a line of its own for each problem: %q", line)
		}
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.destinations`); n != 0 {
		t.Errorf("%d destinations were applied", n)
	}
}

func TestDestinationFilesThatAreNone(t *testing.T) {
	b := newBench(t, "")
	for name, text := range map[string]string{
		"empty": "", "null": "destinations:\n---\n", "no list": "destinations: {}", "a word": "hello", "no YAML": "a: [", "two documents": "destinations: []\n---\ndestinations: []",
		"an alias to itself": "destinations: &a [*a]", "secret alias": "destinations: *s3cr3t", "twice": "destinations: []\ndestinations: []",
		"deep": "destinations: [[[]]]", "composed key": "? [a]\n: b", "NUL": "destinations: [{name: a, url: \"https://x.example/\\0\"}]",
	} {
		got := b.run(78, "destination", "apply", "-f", b.file(text))
		if strings.Contains(got.err, "s3cr3t") {
			t.Errorf("%s: %s", name, got.err)
		}
	}
	b.run(78, "destination", "apply", "-f", filepath.Join(t.TempDir(), "nosuch.yaml"))
	b.run(64, "destination", "apply")
	if got := b.run(0, "destination", "apply", "-f", b.file("destinations: []"), "-o", "json"); got.out != "[]\n" {
		t.Errorf("an empty list: %q", got.out)
	}
}

func TestDestinationsFromStandardInputAndAliases(t *testing.T) {
	b := newBench(t, "")
	got := call{db: b.db, in: "destinations:\n- {name: a, url: &u https://a.example/}\n- {name: b, url: *u}\n", args: []string{"--config", b.config, "destination", "apply", "-f", "-"}}.run(t)
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	has(t, got.out, "created", "a", "b")
	got = call{db: b.db, in: "destinations:\n- {name: a}\n", args: []string{"--config", b.config, "destination", "apply", "-f", "-"}}.run(t)
	has(t, got.err, "standard input:2: destinations[0].url: there is none")
}

func TestDestinationPrune(t *testing.T) {
	b := newBench(t, "")
	for _, name := range []string{"busy", "unused"} {
		b.db.Destination(t, name, "https://r.example/")
	}
	b.db.Enqueue(t, "busy", "E-1", `{}`)
	file := b.file("destinations: [{name: a, url: 'https://a.example/'}]")
	has(t, b.run(64, "destination", "apply", "-f", file, "--prune").err, "--prune without a terminal needs --yes")
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.destinations`); n != 2 {
		t.Errorf("%d destinations after a usage error", n)
	}
	has(t, b.run(78, "destination", "apply", "-f", b.file("destinations: []"), "--prune", "--yes").err, "--prune would remove everything")
	got := b.run(0, "destination", "apply", "-f", file, "--prune", "--yes", "-o", "json").out
	if s := changesOf(t, got); s != "a created url,policy,body,payload_max; busy kept; unused removed" {
		t.Errorf("%s", s)
	}
	has(t, got, `"needed":{"scheduled":1,"in_flight":0,"stuck":0,"dead":0}`)
	has(t, b.run(3, "destination", "remove", "busy").err, `destination "busy" is still needed: 1 scheduled`)
	b.db.Destination(t, "unused", "https://r.example/")
	onTerminal := call{db: b.db, tty: true, args: []string{"--config", b.config, "destination", "apply", "-f", file, "--prune"}}.run(t)
	if onTerminal.code != 0 || onTerminal.err != "" {
		t.Errorf("on a terminal nothing is asked: %+v", onTerminal)
	}
	has(t, onTerminal.out, "removed")
}

func TestDestinationApplyQuietly(t *testing.T) {
	b := newBench(t, "")
	file := b.file("destinations: [{name: a, url: 'https://a.example/'}]")
	if got := b.run(0, "destination", "apply", "-f", file, "--quiet"); got.out+got.err != "" {
		t.Errorf("%+v", got)
	}
}

// A file that only differs in what is hidden says so.
func TestDestinationChangeOfAHiddenPart(t *testing.T) {
	b := newBench(t, "")
	b.run(0, "destination", "apply", "-f", b.file("destinations: [{name: a, url: 'https://a.example/x'}]"))
	got := b.run(0, "destination", "apply", "-f", b.file("destinations: [{name: a, url: 'https://a.example/y', rate: 1/s}]")).out
	has(t, got, "changed", "url: https://a.example/… (path or query); rate: - → 1/s")
}

// A literal that somebody put into the headers by hand is named, not printed, and the
// next apply takes it out.
func TestDestinationWithALiteralHeader(t *testing.T) {
	b := newBench(t, "")
	testbed.Exec(t, b.db, `INSERT INTO whctl.destinations (name, url, headers) VALUES ('a', 'https://a.example/', '{"X-Token": "s3cr3t"}')`)
	got := b.run(78, "destination", "list")
	has(t, got.err, `headers of destination "a"`)
	if strings.Contains(got.out+got.err, "s3cr3t") {
		t.Errorf("%+v", got)
	}
	has(t, b.run(0, "destination", "apply", "-f", b.file("destinations: [{name: a, url: 'https://a.example/'}]"), "-o", "json").out, `"field":"headers"`)
	b.run(0, "destination", "list")
}

func TestShownURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://a.example":            "https://a.example",
		"https://a.example/":           "https://a.example/",
		"https://a.example:8443/x":     "https://a.example:8443/…",
		"https://a.example?x":          "https://a.example/…",
		"https://a.example/#frag":      "https://a.example/…",
		"https://u:p@a.example/":       "https://a.example/",
		"https://[::1]:1/x":            "https://[::1]:1/…",
		"secret":                       "…",
		"":                             "…",
		"https:///secret":              "…",
		"https://a.example/\x7fsecret": "…",
	} {
		if got := shownURL(raw, false); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	if got := shownURL("https://u:p@a.example/x?y", true); got != "https://a.example/x?y" {
		t.Errorf("revealed: %q", got)
	}
}
