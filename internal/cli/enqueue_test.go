package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

const enqueueConfig = `
policies:
  raw: {extends: default, body: raw}
`

// enqueueBench has a destination of each kind of body, put in by hand.
func enqueueBench(t *testing.T, config string) bench {
	b := newBench(t, config)
	testbed.Exec(t, b.db, `INSERT INTO whctl.destinations (name, url, policy) VALUES
		('r', 'https://r.example/', 'default'), ('raw', 'https://r.example/', 'raw'), ('else', 'https://r.example/', 'elsewhere')`)
	return b
}

// lines writes a file of JSON lines.
func (b bench) lines(text string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// rows is how many deliveries there are.
func (b bench) rows() int64 {
	b.Helper()
	return testbed.QueryInt(b.T, b.db, `SELECT count(*) FROM whctl.deliveries d JOIN whctl.envelopes e ON e.id = d.id`)
}

// event is a line of the file; members go in besides destination, type and payload.
func event(subject, members string) string {
	return fmt.Sprintf(`{"destination":"r","type":"enrolment.changed","subject":%q,"payload":{"of":%q}%s}`, subject, subject, members) + "\n"
}

func TestEnqueueAFile(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	file := b.lines("\xef\xbb\xbf" + event("E-1", "") + "\r\n" + event("E-1", "") + event("E-2", `,"event_version":7,"not_before":"2026-02-01T00:00:00+01:00"`) +
		strings.TrimSuffix(event("E-3", ""), "\n"))
	got := b.run(0, "enqueue", "--file", file, "-o", "json")
	if want := `{"enqueued":3,"duplicates":1,"conflicts":0,"rejected":0}` + "\n"; got.out != want || got.err != "" {
		t.Errorf("%s%s, want %s", got.out, got.err, want)
	}
	got = b.run(0, "enqueue", "-f", file)
	if want := "ENQUEUED   DUPLICATES   CONFLICTS   REJECTED\n       0            4           0          0\n"; got.out != want || got.err != "" {
		t.Errorf("again:\n%s%s", got.out, got.err)
	}
	if got = b.run(0, "enqueue", "-f", file, "--quiet"); got.out+got.err != "" {
		t.Errorf("quiet: %s%s", got.out, got.err)
	}
	if got, want := testbed.QueryString(t, b.db, `SELECT concat_ws(' ', e.event_version, e.body, d.next_attempt_at) FROM whctl.envelopes e JOIN whctl.deliveries d ON d.id = e.id WHERE e.subject = 'E-2'`),
		"7 envelope 2026-01-31 23:00:00+00"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	testbed.Check(t, b.db)
}

func TestEnqueueReportsLines(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	text := event("E-1", `,"event_version":1`) + strings.Replace(event("E-1", `,"event_version":1`), `{"of":"E-1"}`, `{"secret":"S-1"}`, 1) +
		`{"destination":"nowhere","type":"t","payload":{"secret":"S-2"}}` + "\n" +
		`{"destination":"r","type":"t","payload":{"secret":"S-3"},"\u001b[2Jevent\u202e":1}` + "\n" +
		`{"destination":"r","type":"t","payload_base64":"Uy00"}` + "\n" +
		`{"destination":"raw","type":"t","payload_base64":"Uy01"}` + "\n" +
		`{"destination":"else","type":"t","payload_base64":"Uy02"}` + "\n" +
		`{"destination":"r","type":"t","payload":{"secret":"S-7"}` + "\n" +
		event("E-8", `,"not_after":"2020-01-01T00:00:00Z"`) + event("E-9", `,"event_at":"infinity"`) +
		`{"destination":"r","type":"t","payload":"` + strings.Repeat("S", 400<<10) + `"}` + "\n" + event("E-10", "")
	file := b.lines(text)
	got := b.run(1, "enqueue", "-f", file, "-o", "json")
	if want := `{"enqueued":4,"duplicates":0,"conflicts":1,"rejected":7}` + "\n"; got.out != want {
		t.Errorf("%s, want %s", got.out, want)
	}
	id := testbed.QueryString(t, b.db, `SELECT delivery_id FROM whctl.envelopes WHERE subject = 'E-1'`)
	want := strings.ReplaceAll(`whctl: FILE:2: conflict: this event was enqueued before with another payload, as delivery `+id+`
whctl: FILE:3: rejected: unknown destination "nowhere"
whctl: FILE:4: rejected: unknown field "\x1b[2Jevent\u202e"
whctl: FILE:5: rejected: the payload is not JSON, and the body of destination r is an envelope
whctl: FILE:8: rejected: not valid JSON: it ends too early
whctl: FILE:9: rejected: not_after has passed, or lies before the due time: it could never be sent
whctl: FILE:10: rejected: event_at: want a time as of RFC 3339 with its zone, such as 2026-01-31T09:30:00Z
whctl: FILE:11: rejected: a line of 409644 bytes is longer than the 382292 allowed (by enqueue.payload_max)
`, "FILE", file)
	if got.err != want {
		t.Errorf("stderr\n%s\nwant\n%s", got.err, want)
	}
	// Where the policy is not configured, the worker's decides.
	if got, want := testbed.QueryString(t, b.db, `SELECT string_agg(DISTINCT destination || ' ' || coalesce(body, '-'), ', ') FROM whctl.envelopes`),
		"else -, r envelope, raw raw"; got != want {
		t.Errorf("bodies %s, want %s", got, want)
	}
	if got := b.run(1, "enqueue", "-f", file, "--quiet", "-o", "json"); got.out != `{"enqueued":0,"duplicates":4,"conflicts":1,"rejected":7}`+"\n" {
		t.Errorf("quiet, again: %s", got.out)
	}
	testbed.Check(t, b.db)
}

func TestEnqueueReportsNoFlood(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	text := strings.Repeat("x\n", 50)
	for i := range 30 {
		text += fmt.Sprintf(`{"destination":"r","type":"t","event_version":1,"payload":%d}`+"\n", i)
	}
	got := call{db: b.db, args: []string{"--config", b.config, "enqueue", "-f", "-"}, in: text}.run(t)
	if got.code != 1 || strings.Count(got.err, ": rejected: ") != 20 || strings.Count(got.err, ": conflict: ") != 20 {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
	has(t, got.err, "whctl: standard input:20: rejected:", "whctl: standard input: 30 more lines were rejected\n", "whctl: standard input: 9 more lines conflict\n")
}

func TestEnqueueStrict(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	good := event("E-1", "") + event("E-2", "")
	for _, bad := range []string{"x\n", `{"destination":"nowhere","type":"t","payload":1}`, event("E-1", `,"not_after":"2020-01-01T00:00:00Z"`)[:30]} {
		got := b.run(1, "enqueue", "-f", b.lines(good+bad+"\n"+event("E-3", "")), "--strict", "-o", "json")
		if got.out != `{"enqueued":0,"duplicates":0,"conflicts":0,"rejected":1}`+"\n" || b.rows() != 0 {
			t.Errorf("%s: %s, %d rows", bad, got.out, b.rows())
		}
		has(t, got.err, ":3: rejected: ", "nothing was kept (--strict): 0 lines conflict, 1 were rejected")
	}
	got := b.run(0, "enqueue", "-f", b.lines(good+good), "--strict", "-o", "json")
	if got.out != `{"enqueued":2,"duplicates":2,"conflicts":0,"rejected":0}`+"\n" || got.err != "" || b.rows() != 2 {
		t.Errorf("%s%s, %d rows", got.out, got.err, b.rows())
	}
	conflict := strings.Replace(event("E-4", `,"event_version":1`), `{"of"`, `{"o"`, 1)
	got = b.run(1, "enqueue", "-f", b.lines(event("E-4", `,"event_version":1`)+conflict), "--strict", "-o", "json")
	if got.out != `{"enqueued":0,"duplicates":0,"conflicts":1,"rejected":0}`+"\n" || b.rows() != 2 {
		t.Errorf("%s, %d rows", got.out, b.rows())
	}
	testbed.Check(t, b.db)
}

func TestEnqueueUsage(t *testing.T) {
	folder := t.TempDir()
	one := func(args ...string) []string {
		return append([]string{"--destination", "r", "--type", "t", "--payload", "-"}, args...)
	}
	for _, args := range [][]string{
		{},
		{"--destination", "r", "--type", "t"},
		{"--destination", "r", "--payload", "-"},
		{"--type", "t", "--payload", "-"},
		{"--file", ""},
		{"--file", folder},
		{"--file", folder + "/none"},
		{"--file", "-", "--destination", "r"},
		{"--file", "-", "--payload", "-"},
		{"--file", "-", "-o", "name"},
		{"--file", "-", "-o", "nosuch"},
		{"--file", "-", "x"},
		one("--strict"), one("--event-version", ""), one("--delivery-id", ""), one("--delivery-id", "a b"), one("--event-at", "yesterday"),
		one("--event-at", ""), one("--not-before", "2026-01-31T09:30:00"), one("--not-after", "infinity"), one("--subject", strings.Repeat("x", 1025)),
		one("--tenant", "\xff"), one("--event-id", "\x00"), one("--not-before", "2026-02-01T00:00:00Z", "--not-after", "2026-01-01T00:00:00Z"),
		one("--destination", "r r"), one("--type", ""), one("--payload", folder+"/none"), one("--payload", folder),
	} {
		// Without a database: nothing is touched.
		got := call{args: append([]string{"enqueue"}, args...), in: "{}"}.run(t)
		if got.code != exitUsage || got.out != "" || got.err == "" {
			t.Errorf("%q: exit %d\n%s%s", args, got.code, got.out, got.err)
		}
	}
}
