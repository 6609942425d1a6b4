package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"example.com/whctl/internal/config"
)

func TestRetention(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{
			"minutes", "retention:\n  redrive_window: 6m\n  d: {version: 1, states: [dead], keep: 6m}",
			[]string{
				`whctl.yaml:2: retention.redrive_window: "6m" is refused for an age: m means minutes and is easily taken for months (write 180d for months, 360s for minutes)`,
				`whctl.yaml:3: retention.d.keep: "6m" is refused for an age`,
			},
		},
		{
			"shorter than duplicates live", "retention:\n  delivered: {version: 1, states: [delivered], keep: 14d}",
			[]string{"whctl.yaml:2: retention.delivered.keep: 14d does not exceed 14d + 7h8m, the redrive_window and the longest that policy default retries (a delivered row must outlive every duplicate)"},
		},
		{"just enough", "retention:\n  delivered: {version: 1, states: [delivered], keep: 14d7h8m1s}", nil},
		{
			"a slow policy", "policies: {slow: {max_attempts: 11, backoff: {type: fixed, delay: 5d, jitter: 0}}}\nretention:\n  delivered: {version: 1, states: [cancelled, delivered], keep: 60d}",
			[]string{"60d does not exceed 14d + 50d11m, the redrive_window and the longest that policy slow retries"},
		},
		{"a longer window", "retention:\n  redrive_window: 60d\n  delivered: {version: 1, states: [delivered], keep: 30d}", []string{"30d does not exceed 60d + 7h8m"}},
		{"others may go early", "retention:\n  gone: {version: 1, states: [cancelled, discarded, dead], keep: 1d}\n  attempts: {version: 1, target: attempts, keep: 1h}", nil},
		{"nothing said", "retention:\n  a: {}", []string{"retention.a.keep: is missing", "retention.a.states: is missing (a sweep removes only the states that it names)", "retention.a.version: is missing"}},
		{"no states", "retention:\n  a: {version: 1, keep: 9d, states: []}", []string{"retention.a.states: is missing"}},
		{"states of attempts", "retention:\n  a: {version: 1, keep: 9d, target: attempts, states: [dead]}", []string{"retention.a.states: has no use with target: attempts (take it out)"}},
		{"a name that is taken", "retention:\n  finished: {version: 1, keep: 9d, states: [dead]}", []string{"retention.finished: is the name of what sweeps by an age given by hand (choose another)"}},
		{"live states", "retention:\n  a: {version: 1, keep: 9d, states: [scheduled]}", []string{`"scheduled" is no state that a sweep may remove (want delivered, cancelled, discarded or dead)`}},
		{
			"bounds", "retention:\n  a:\n    version: 0\n    keep: 0d\n    states: [dead]\n    batch: 999999999\n    max_rows: 0\n    max_fraction: 1.5\n    target: rows\n    archive: {dir: here}",
			[]string{
				`version: "0" is no whole number`, "keep: 0d is too little", `batch: "999999999" is no whole number from 1 to 10000`, `max_rows: "0" is no whole number`,
				"max_fraction: 1.5 is out of bounds (want more than 0, at most 1)", `target: "rows" is no target (want deliveries or attempts)`, `archive.dir: "here" is no absolute path`,
			},
		},
		{"caps", "retention:\n  a: {version: 1, keep: 9d, states: [dead], max_rows: 100, max_fraction: 0.5}", nil},
		{"a long text", "retention:\n  a: {version: 1, states: [dead], keep: " + strings.Repeat("é", 999) + "}", []string{`keep: "éé`}},
		{"no number", "retention:\n  a: {version: 1, keep: 9d, states: [dead], max_fraction: NaN}", []string{"max_fraction: NaN is out of bounds"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(file(tt.yaml).options())
			wantProblems(t, err, tt.want...)
		})
	}
}

func TestKeysAndTheRest(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{"no current", "keys:\n  a: {}\n  b: {previous: {env: B}}", []string{"whctl.yaml:2: keys.a.current: want exactly one of env and file", "whctl.yaml:3: keys.b.current: want exactly one of env and file"}},
		{"both", "keys: {a: {current: {env: A, file: a}}}", []string{"keys.a.current: want exactly one of env and file"}},
		{"neither", "keys: {a: {current: {env: A}, previous: {}}}", []string{"keys.a.previous: want exactly one of env and file"}},
		{
			"the secret itself", "keys: {a: {current: {env: whsec_hunter2}, previous: {file: whsec_hunter2}}}",
			[]string{"keys.a.current.env: looks like the secret itself (write the name of a variable or a file that holds it)", "keys.a.previous.file: looks like the secret itself"},
		},
		{"no name of a variable", "keys: {a: {current: {env: hunter2=}}}", []string{"keys.a.current.env: is no name of an environment variable"}},
		{"no name of a file", "keys: {a: {current: {file: ''}}}", []string{"keys.a.current.file: is no name of a file"}},
		{"payload", "enqueue: {payload_max: 0}", []string{"enqueue.payload_max: 0 is out of bounds (want 1 to 256MiB)"}},
		{"payload too large", "enqueue: {payload_max: 1GiB}", []string{"1GiB is out of bounds"}},
		{"statement time-out", "database: {statement_timeout: 0s}", []string{"database.statement_timeout: 0s is too little (want more than 0)"}},
		{
			"redact", "redact:\n  - $.a\n  - email\n  - $.b[\n  - ''", []string{
				`whctl.yaml:1: redact: "email" is no JSONPath: unexpected identifier at position 1 (write one such as $.student.* or $..email)`,
				`whctl.yaml:1: redact: "$.b[" is no JSONPath: unexpected eof at position 5`, `whctl.yaml:1: redact: "" is no JSONPath: unexpected end of input`,
			},
		},
		{"guard", "guards: {a: ' '}", []string{"guards.a: is empty (want one SQL statement)"}},
		{"query", "reconcile:\n  a: {limit: 5}\n", []string{"whctl.yaml:2: reconcile.a.query: is missing"}},
		{"limit", "reconcile:\n  a: {query: select, limit: -1}\n", []string{`reconcile.a.limit: "-1" is no whole number`}},
		{"no address of a database", "database: {url: hunter2}", []string{"database.url: is no connection string (write postgres://USER@HOST/NAME, or host=HOST dbname=NAME)"}},
		{"of another database", "database: {url: 'mysql://u:hunter2@h/db?a=b'}", []string{"database.url: is no connection string"}},
		{"address of two lines", "database: {url: \"postgres://u:hunter2@h/\\nx\"}", []string{"database.url: holds a control character or a second line"}},
		{"address twice", "database: {url: 'postgres://h/', url_file: f}", []string{"database.url_file: set beside database.url (take one of them out)"}},
		{"address in a missing file", "database: {url_file: f}", []string{"database.url_file: secret file: open f: file does not exist"}},
		{"a secret where a duration belongs", "database: {statement_timeout: 'postgres://u:hunter2@h/'}", []string{`"postgres://u:*****@h/" is no duration`}},
		{"a key where a size belongs", "enqueue: {payload_max: whsec_hunter2}", []string{`"*****" is no size`}},
		{"pairs", "database: {url: 'host=h password=hunter2'}", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(file(tt.yaml).options())
			wantProblems(t, err, tt.want...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("quotes the secret")
			}
		})
	}
	c := file("reconcile: {a: {query: select 1}}").load(t)
	if c.Reconcile["a"].Limit != 1000 {
		t.Errorf("%+v", c.Reconcile)
	}
}

func TestProblemsAreTellable(t *testing.T) {
	_, err := config.Load(file("b: 1\nenqueue: {payload_max: x}\na: 1").options())
	var problems config.Problems
	if !errors.As(err, &problems) || len(problems) != 3 {
		t.Fatalf("%T %v", err, err)
	}
	wheres := []string{problems[0].Where, problems[1].Where, problems[2].Where}
	if !slices.Equal(wheres, []string{"whctl.yaml:1", "whctl.yaml:2", "whctl.yaml:3"}) || problems[1].Key != "enqueue.payload_max" {
		t.Errorf("%+v", problems)
	}
}
