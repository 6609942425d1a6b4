package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/testbed"
)

// buryMany puts n dead letters in, m0001 to mNNNN, those of the same second 50 at a
// time, with tenants and subjects of their own.
func buryMany(t *testing.T, d *testbed.Database, n int) {
	t.Helper()
	d.Destination(t, "r", "https://r.example/hook/TOK-5542?token=Q-9910")
	testbed.Plant(t, d, `
WITH e AS (
  INSERT INTO whctl.envelopes (event_at, delivery_id, destination, tenant, subject, event_type, event_version, payload)
  SELECT '2026-11-01 09:00:00+00', 'm' || lpad(n::text, 4, '0'), 'r', 't' || n, 's' || n, 'e', '1', '{}' FROM generate_series(1, $1::int) n
  RETURNING id, subject)
INSERT INTO whctl.deliveries (id, destination_id, state, finished_at, attempts, class, status, reason, fingerprint)
SELECT e.id, x.id, 2, timestamptz '2026-11-01 10:00:00+00' + (substr(e.subject, 2)::int - 1) / 50 * interval '1 second', 1, 14, 400, 1, 'f'
FROM e, whctl.destinations x`, n)
}

// buryOne puts one dead letter in whose texts are as given.
func buryOne(t *testing.T, d *testbed.Database, id, tenant, message, excerpt string) {
	t.Helper()
	testbed.Exec(t, d, `INSERT INTO whctl.destinations (name, url) VALUES ('r', 'https://r.example/') ON CONFLICT DO NOTHING`)
	testbed.Plant(t, d, `
WITH e AS (
  INSERT INTO whctl.envelopes (event_at, delivery_id, destination, tenant, subject, event_type, event_version, payload)
  VALUES ('2026-11-01 09:00:00+00', $1, 'r', $2, $2 || 's', 'e', '1', '{}') RETURNING id),
d AS (
  INSERT INTO whctl.deliveries (id, destination_id, state, started_at, finished_at, attempts, class, reason, fingerprint)
  SELECT e.id, x.id, 2, '2026-11-01 10:00:00+00', '2026-11-01 10:00:01+00', 1, 2, 2, NULL FROM e, whctl.destinations x)
INSERT INTO whctl.attempts (delivery_id, attempt_id, started_at, finished_at, generation, attempt, class, worker, message, excerpt)
SELECT e.id, gen_random_uuid(), '2026-11-01 10:00:00+00', '2026-11-01 10:00:01+00', 1, 1, 2, 'w#1', $3, $4 FROM e`, id, tenant, message, excerpt)
}

func TestDLQListOfNothing(t *testing.T) {
	d := testbed.DB(t)
	for format, want := range map[string]string{
		"json": "[]\n", "jsonl": "", "table": "", "name": "",
		"csv": "DELIVERY ID,DESTINATION,TENANT,SUBJECT,EVENT TYPE,EVENT VERSION,CLASS,STATUS,REASON,FINGERPRINT,ATTEMPTS,GENERATION,EVENT AT,DIED AT,PAYLOAD BYTES\n",
	} {
		if got := run(t, d, 0, "dlq", "list", "-o", format); got.out != want || got.err != "" {
			t.Errorf("%s: %+v", format, got)
		}
	}
	if got := run(t, d, 0, "dlq", "list", "--destination", "nowhere", "-o", "json"); got.out != "[]\n" || got.err != "" {
		t.Errorf("%+v", got)
	}
	seen := call{db: d, tty: true, args: []string{"dlq", "list"}}.run(t)
	if seen.code != 0 || seen.out != "" || !strings.Contains(seen.err, "no dead letter found") {
		t.Errorf("on a terminal: %+v", seen)
	}
}

func TestDLQListRowIsTheContract(t *testing.T) {
	d := testbed.DB(t)
	buryMany(t, d, 1)
	buryOne(t, d, "none", "acme", "m", "")
	want := `[{"delivery_id":"m0001","destination":"r","tenant":"t1","subject":"s1","event_type":"e","event_version":"1","class":"rejected",` +
		`"status":400,"reason":"permanent","fingerprint":"f","attempts":1,"generation":1,"event_at":"2026-11-01T09:00:00.000000Z",` +
		`"died_at":"2026-11-01T10:00:00.000000Z","payload_bytes":2},` + "\n" +
		`{"delivery_id":"none","destination":"r","tenant":"acme","subject":"acmes","event_type":"e","event_version":"1","class":"timeout",` +
		`"status":null,"reason":"exhausted","fingerprint":null,"attempts":1,"generation":1,"event_at":"2026-11-01T09:00:00.000000Z",` +
		`"died_at":"2026-11-01T10:00:01.000000Z","payload_bytes":2}]` + "\n"
	if got := run(t, d, 0, "dlq", "list", "-o", "json").out; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// 500 dead letters: each id once, in the documented order, with what belongs to it.
func TestDLQListShowsTheRightRows(t *testing.T) {
	d := testbed.DB(t)
	const n = 500
	buryMany(t, d, n)
	table := strings.Split(strings.TrimSuffix(run(t, d, 0, "dlq", "list", "--limit", "500").out, "\n"), "\n")
	if len(table) != n+1 || strings.Join(strings.Fields(table[0]), " ") != "DELIVERY ID DESTINATION TENANT SUBJECT EVENT TYPE CLASS STATUS REASON ATTEMPTS DIED AT" {
		t.Fatalf("%d lines, first %q", len(table), table[0])
	}
	for i, line := range table[1:] {
		want := fmt.Sprintf("m%04d r t%d s%d e rejected 400 permanent 1 2026-11-01T10:00:%02d.000000Z", i+1, i+1, i+1, i/50)
		if got := strings.Join(strings.Fields(line), " "); got != want {
			t.Fatalf("line %d: %q, want %q", i+1, got, want)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(run(t, d, 0, "dlq", "list", "--limit", "2000", "-o", "csv").out)).ReadAll()
	if err != nil || len(rows) != n+1 || rows[n][0] != "m0500" || rows[n][2] != "t500" {
		t.Errorf("csv: %d rows, %v", len(rows), err)
	}
}

// All formats that are written page by page have each row once and one header.
func TestDLQListBeyondOnePage(t *testing.T) {
	d := testbed.DB(t)
	const n = 2500
	buryMany(t, d, n)
	for format, headers := range map[string]int{"csv": 1, "name": 0, "jsonl": 0, "table": 1, "markdown": 2} {
		out := run(t, d, 0, "dlq", "list", "--limit", "9999", "-o", format).out
		if lines := strings.Count(out, "\n"); lines != n+headers {
			t.Errorf("%s: %d lines", format, lines)
		}
		for _, id := range []string{"m0001", "m1000", "m1001", "m2500"} {
			if strings.Count(out, id) != 1 {
				t.Errorf("%s: %s stands there %d times", format, id, strings.Count(out, id))
			}
		}
	}
	if rows := decode[[]map[string]any](t, run(t, d, 0, "dlq", "list", "--limit", "9999", "-o", "json").out); len(rows) != n {
		t.Errorf("json: %d rows", len(rows))
	}
}

func TestDLQListPagesByCursor(t *testing.T) {
	d := testbed.DB(t)
	buryMany(t, d, 120)
	var ids []string
	after := ""
	for range 10 {
		got := call{db: d, args: []string{"dlq", "list", "--limit", "50", "--after", after, "--detailed-exitcode", "-o", "json"}}.run(t)
		rows := decode[[]map[string]any](t, got.out)
		for _, r := range rows {
			ids = append(ids, r["delivery_id"].(string))
		}
		last := rows[len(rows)-1]
		after = fmt.Sprintf("%s,%s", last["died_at"], last["delivery_id"])
		if got.code == exitOK {
			break
		}
		if got.code != exitMore || got.err != "" {
			t.Fatalf("exit %d, %q", got.code, got.err)
		}
	}
	if len(ids) != 120 || !slices.IsSorted(ids) {
		t.Errorf("%d ids: %v", len(ids), ids)
	}
}

// The default bound is told to people, and to nobody else.
func TestDLQListSaysThatThereIsMore(t *testing.T) {
	d := testbed.DB(t)
	buryMany(t, d, 300)
	got := call{db: d, tty: true, args: []string{"dlq", "list"}}.run(t)
	if got.code != 0 || strings.Count(got.out, "\n") != 101 {
		t.Errorf("exit %d, %d lines", got.code, strings.Count(got.out, "\n"))
	}
	if want := "whctl: 200 more; --limit, or --after 2026-11-01T10:00:01.000000Z,m0100\n"; got.err != want {
		t.Errorf("stderr %q, want %q", got.err, want)
	}
	if got := run(t, d, 0, "dlq", "list"); got.err != "" {
		t.Errorf("no terminal, and yet: %q", got.err)
	}
	if got := (call{db: d, tty: true, args: []string{"dlq", "list", "--limit", "300"}}).run(t); got.err != "" {
		t.Errorf("nothing more, and yet: %q", got.err)
	}
}

func TestDLQListFiltersAreValues(t *testing.T) {
	d := testbed.DB(t)
	for i, tenant := range []string{"acme_1", "acmeX1", "acme%", "acmeZ", "a,b", ""} {
		buryOne(t, d, fmt.Sprintf("d%d", i), tenant, "m", "")
	}
	for tenant, want := range map[string]string{"acme_1": "d0\n", "acme%": "d2\n", "%": "", "a,b": "d4\n", "": "d5\n", "acme*": "", "ACMEZ": ""} {
		if got := run(t, d, 0, "dlq", "list", "--tenant", tenant, "-o", "name").out; got != want {
			t.Errorf("--tenant %q: %q, want %q", tenant, got, want)
		}
	}
	if got := run(t, d, 0, "dlq", "list", "--tenant", "acmeZ", "--tenant", "acme%", "--class", "timeout", "--class", "tls", "--event-type", "e", "-o", "name").out; got != "d2\nd3\n" {
		t.Errorf("several: %q", got)
	}
	if got := run(t, d, 0, "dlq", "list", "--status", "503", "-o", "name").out; got != "" {
		t.Errorf("--status 503: %q", got)
	}
}

func TestDLQListRefusesBadValuesBeforeItConnects(t *testing.T) {
	for _, args := range [][]string{
		{"--limit", "0"},
		{"--limit", "-1"},
		{"--limit", "x"},
		{"--limit", "99999999999999999999"},
		{"--class", "timeouts"},
		{"--class", ""},
		{"--status", "5xx"},
		{"--after", "x"},
		{"-o", "yaml"},
		{"--jq", "."[:0] + ".["},
		{"-o", "table", "--jq", "."},
		{"--tenant", "\xff"},
	} {
		got := call{args: append([]string{"dlq", "list", "--database-url", "postgres://127.0.0.1:1/x"}, args...)}.run(t)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%q: exit %d, %q", args, got.code, got.err)
		}
	}
}

// hostile is text that would drive a terminal.
const hostile = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b]8;;https://x\x1b\\ \rOK delivered\b\b\b\x7f\u202egpj.exe\u0085"

func assertTame(t *testing.T, where, out string) {
	t.Helper()
	for i := range len(out) {
		if c := out[i]; c < 0x20 && c != '\n' && c != '\t' || c == 0x7f {
			t.Fatalf("%s: byte %#x in %q", where, c, out[max(0, i-20):min(len(out), i+20)])
		}
	}
	for _, r := range []string{"\u202e", "\u0085"} {
		if strings.Contains(out, r) {
			t.Errorf("%s: %q came through", where, r)
		}
	}
}

func TestHostileTextIsShownAndDoesNothing(t *testing.T) {
	d := testbed.DB(t)
	buryOne(t, d, "evil", hostile, hostile, hostile+"\nsecond line "+hostile)
	for _, tty := range []bool{false, true} {
		for _, line := range []string{
			"dlq list", "dlq list -o wide", "dlq list -o json", "dlq list -o jsonl", "dlq list -o csv", "dlq list -o markdown", "dlq list -o name",
			"show evil", "show evil -o json", "show evil -o csv", "show evil -o markdown",
		} {
			noColor := map[string]string{"NO_COLOR": "1"} // else titles are bold, by escapes of our own
			got := call{db: d, tty: tty, width: "500", env: noColor, args: strings.Fields(line)}.run(t)
			if got.code != 0 {
				t.Fatalf("%s: %+v", line, got)
			}
			assertTame(t, line, got.out+got.err)
			if strings.Contains(line, "name") {
				continue
			}
			if !strings.Contains(got.out, `\x1b]52;c;ZXZpbA`) && !strings.Contains(got.out, `\u001b]52;c;ZXZpbA`) && !strings.Contains(got.out, `\\x1b\]52`) {
				t.Errorf("%s: the text is not visible:\n%s", line, got.out)
			}
		}
	}
	rows := decode[[]map[string]any](t, run(t, d, 0, "dlq", "list", "-o", "json").out)
	if rows[0]["tenant"] != hostile {
		t.Errorf("JSON changed the text: %q", rows[0]["tenant"])
	}
}

func TestDLQListForSpreadsheets(t *testing.T) {
	d := testbed.DB(t)
	for i, tenant := range []string{`=HYPERLINK("https://x")`, "+1", "-1+1", "@x", "\tx", "\rx"} {
		buryOne(t, d, fmt.Sprintf("d%d", i), tenant, "m", "")
	}
	rows, err := csv.NewReader(strings.NewReader(run(t, d, 0, "dlq", "list", "-o", "csv").out)).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows[1:] {
		for _, cell := range row {
			if strings.IndexAny(cell, "=+-@\t\r") == 0 {
				t.Errorf("unguarded cell %q", cell)
			}
		}
	}
	json := decode[[]map[string]any](t, run(t, d, 0, "dlq", "list", "-o", "json").out)
	if json[0]["tenant"] != `=HYPERLINK("https://x")` {
		t.Errorf("JSON: %q", json[0]["tenant"])
	}
}

// Neither the address of a destination nor what is secret in it is in any list.
func TestDLQListAndShowHideAddresses(t *testing.T) {
	d := testbed.DB(t)
	buryMany(t, d, 1)
	for _, line := range []string{"dlq list -o wide", "dlq list -o json", "show m0001", "show m0001 -o json"} {
		got := call{db: d, args: append(strings.Fields(line), "--log-level", "debug")}.run(t)
		for _, secret := range []string{"TOK-5542", "Q-9910"} {
			if strings.Contains(got.out+got.err, secret) {
				t.Errorf("%s printed %s", line, secret)
			}
		}
	}
}

// A reader that has seen enough ends the list quietly; what is wrong is told all the
// same.
func TestDLQListIntoAClosedPipe(t *testing.T) {
	d := testbed.DB(t)
	buryMany(t, d, 5000)
	for _, script := range []string{"dlq list | head -n 1", "dlq list --limit 5000 | head -n 1", "dlq list --limit 5000 -o json | head -c 1", "dlq list --limit 5000 -o jsonl | head -n 1"} {
		got := testbed.Run(t, testbed.Cmd{
			Path: "/bin/bash", Args: []string{"-o", "pipefail", "-c", testbed.Binary(t) + " " + script}, Env: []string{"WHCTL_DATABASE_URL=" + d.URL},
		})
		if got.Code != 0 || got.Stderr != "" || len(got.Stdout) == 0 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", script, got.Code, got.Stdout, got.Stderr)
		}
	}
	got := testbed.Run(t, testbed.Cmd{
		Path: "/bin/bash", Args: []string{"-o", "pipefail", "-c", testbed.Binary(t) + " dlq list | head -n 1"},
		Env: []string{"WHCTL_DATABASE_URL=" + strings.Replace(d.URL, d.Name, "nosuch", 1)},
	})
	if got.Code != exitUnreachable || got.Stderr == "" {
		t.Errorf("no database: exit %d, %q", got.Code, got.Stderr)
	}
}

// The same without a process: an error that says that the reader is gone is none.
func TestABrokenPipeIsNoFailure(t *testing.T) {
	d := testbed.DB(t)
	buryMany(t, d, 10)
	s, _, _, stderr := console.Test()
	s.Out = closedPipe{}
	if code := Main(s, "test", []string{"dlq", "list", "--database-url", d.URL}); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
