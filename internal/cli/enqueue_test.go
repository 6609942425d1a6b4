package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if got, want := testbed.QueryString(t, b.db, `SELECT string_agg(destination || ' ' || coalesce(body, '-'), ', ' ORDER BY id) FROM whctl.envelopes`),
		"r envelope, raw raw, else -, r envelope"; got != want {
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

// one is -o json of enqueue by flags.
type one struct {
	Enqueued   int     `json:"enqueued"`
	Duplicates int     `json:"duplicates"`
	Conflicts  int     `json:"conflicts"`
	Rejected   int     `json:"rejected"`
	DeliveryID *string `json:"delivery_id"`
	Result     string  `json:"result"`
}

// put enqueues a payload by flags.
func (b bench) put(code int, payload string, args ...string) (one, answer) {
	b.Helper()
	args = append([]string{"--config", b.config, "enqueue", "--payload", "-", "-o", "json"}, args...)
	got := call{db: b.db, args: args, in: payload}.run(b.T)
	if got.code != code {
		b.Fatalf("whctl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got.code, code, got.out, got.err)
	}
	if got.out == "" {
		return one{}, got
	}
	return decode[one](b.T, got.out), got
}

func TestEnqueueByFlags(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	flags := []string{
		"--destination", "r", "--type", "hold.expired", "--subject", "R-1041", "--tenant", "acme", "--event-version", "7", "--event-id", "evt-1",
		"--event-at", "2026-01-31T10:00:00+01:00", "--not-before", "2026-02-01T00:00:00Z", "--not-after", "2126-02-01T00:00:00Z", "--delivery-id", "del-1",
	}
	got, said := b.put(0, "{}", flags...)
	if got.Enqueued != 1 || got.Result != "enqueued" || *got.DeliveryID != "del-1" || said.err != "" {
		t.Errorf("%s%s", said.out, said.err)
	}
	if got, want := testbed.QueryString(t, b.db, `SELECT concat_ws(' ', e.destination, e.event_type, e.subject, e.tenant, e.event_version, e.event_id, e.event_at, d.next_attempt_at, e.not_after, e.body)
		FROM whctl.envelopes e JOIN whctl.deliveries d ON d.id = e.id`),
		"r hold.expired R-1041 acme 7 evt-1 2026-01-31 09:00:00+00 2026-02-01 00:00:00+00 2126-02-01 00:00:00+00 envelope"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, said := b.put(0, "{}", flags[:len(flags)-2]...); got.Duplicates != 1 || got.Result != "duplicate" || *got.DeliveryID != "del-1" {
		t.Errorf("%s%s", said.out, said.err)
	}
	if got, said := b.put(1, "[]", flags...); got.Conflicts != 1 || got.Result != "conflict" || *got.DeliveryID != "del-1" {
		t.Errorf("%s", said.out)
	} else {
		has(t, said.err, "whctl: conflict: this event was enqueued before with another payload, as delivery del-1")
	}
	if got, said := b.put(1, "{", "--destination", "r", "--type", "t"); got.Rejected != 1 || got.Result != "rejected" || got.DeliveryID != nil {
		t.Errorf("%s", said.out)
	} else {
		has(t, said.err, "whctl: rejected: the payload is not JSON, and the body of destination r is an envelope")
	}
	if got, said := b.put(1, "{}", "--destination", "r", "--type", "t", "--not-after", "2020-01-01T00:00:00Z"); got.Rejected != 1 || got.DeliveryID != nil {
		t.Errorf("%s%s", said.out, said.err)
	}
	if _, said := b.put(4, "{}", "--destination", "nowhere", "--type", "t"); said.out != "" {
		t.Errorf("%s", said.out)
	} else {
		has(t, said.err, `not found: unknown destination "nowhere"; make it with: whctl destination apply -f FILE`)
	}
	file := b.lines("{}\n")
	if got := b.run(0, "enqueue", "--destination", "r", "--type", "t", "--payload", file, "-o", "name", "--delivery-id", "del-2"); got.out != "del-2\n" {
		t.Errorf("-o name: %s", got.out)
	}
	if got := b.run(0, "enqueue", "--destination", "r", "--type", "t", "--payload", file); !strings.Contains(got.out, "DELIVERY ID") || !strings.Contains(got.out, "duplicate") {
		t.Errorf("table: %s", got.out)
	}
	if got := b.run(0, "enqueue", "--destination", "r", "--type", "t", "--payload", file, "--quiet"); got.out+got.err != "" {
		t.Errorf("quiet: %s%s", got.out, got.err)
	}
	if b.rows() != 2 {
		t.Errorf("%d rows, want 2", b.rows())
	}
	testbed.Check(t, b.db)
}

// H14: put in as bytes, kept as bytes, by either way.
func TestEnqueueKeepsTheBytes(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	const payload = `{"b":1.0,  "a":12345678901234567890,"a":2,"u":"\u00e9é"}`
	b.put(0, payload+"\n", "--destination", "raw", "--type", "t", "--delivery-id", "flags")
	b.put(0, payload+"\n", "--destination", "r", "--type", "t", "--delivery-id", "flags-envelope")
	b.run(0, "enqueue", "-f", b.lines(`{"destination":"raw","type":"t","subject":"1","delivery_id":"base64","payload_base64":"`+
		base64.StdEncoding.EncodeToString([]byte(payload+"\n"))+`"}`+"\n"+`{"destination":"raw","type":"t","subject":"2","payload" : `+payload+` ,"delivery_id":"line"}`))
	for id, want := range map[string]string{"flags": payload + "\n", "flags-envelope": payload + "\n", "base64": payload + "\n", "line": payload} {
		if got := testbed.QueryString(t, b.db, `SELECT payload FROM whctl.envelopes WHERE delivery_id = $1`, id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// H24: the limit is the configuration's, whatever a row put in by hand says or does not.
func TestEnqueueLargePayloads(t *testing.T) {
	b := enqueueBench(t, enqueueConfig+"enqueue: {payload_max: 16MiB}\n")
	big := strings.Repeat("0123456789abcdef", 10<<16)
	var file strings.Builder
	for i, n := range []int{0, 256 << 10, 10 << 20} {
		fmt.Fprintf(&file, `{"destination":"raw","type":"t","subject":"line %d","payload_base64":%q}`+"\n", i, base64.StdEncoding.EncodeToString([]byte(big[:n])))
		if got, said := b.put(0, big[:n], "--destination", "raw", "--type", "t", "--subject", fmt.Sprintf("flags %d", i)); got.Enqueued != 1 {
			t.Errorf("%d bytes by flags: %s%s", n, said.out, said.err)
		}
	}
	if got := b.run(0, "enqueue", "-f", b.lines(file.String()), "-o", "json"); got.out != `{"enqueued":3,"duplicates":0,"conflicts":0,"rejected":0}`+"\n" {
		t.Errorf("by lines: %s%s", got.out, got.err)
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.envelopes a JOIN whctl.envelopes b ON b.payload = a.payload WHERE a.subject LIKE 'line%' AND b.subject LIKE 'flags%'`); n != 3 {
		t.Errorf("%d payloads are the same both ways, want 3", n)
	}
	small := enqueueBench(t, enqueueConfig+"enqueue: {payload_max: 10B}\n")
	for _, destination := range []string{"r", "raw"} {
		got, said := small.put(1, `"123456789"`, "--destination", destination, "--type", "t")
		if got.Rejected != 1 || got.Result != "rejected" || said.err != "whctl: rejected: the payload is larger than the 10 bytes allowed (enqueue.payload_max)\n" {
			t.Errorf("%s%s", said.out, said.err)
		}
		small.put(0, `"12345678"`, "--destination", destination, "--type", "t")
	}
}

// The role whctl_producer may call the function and nothing else; what the row says
// about limit and body holds for it then.
func TestEnqueueByFlagsAsAProducer(t *testing.T) {
	b := enqueueBench(t, enqueueConfig+"enqueue: {payload_max: 1MiB}\n")
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET body = 'envelope', payload_max = 300000 WHERE name = 'r'`)
	_, url := b.db.Login(t, "whctl_producer")
	producer := b
	producer.db = &testbed.Database{URL: url, Admin: b.db.Admin}
	got, _ := producer.put(0, "{}", "--destination", "r", "--type", "t", "--delivery-id", "one")
	if got.Enqueued != 1 || *got.DeliveryID != "one" {
		t.Errorf("%+v", got)
	}
	if got, _ := producer.put(0, "{}", "--destination", "r", "--type", "t"); got.Duplicates != 1 || *got.DeliveryID != "one" {
		t.Errorf("%+v", got)
	}
	if got, said := producer.put(1, "{", "--destination", "r", "--type", "t"); got.Rejected != 1 || got.DeliveryID != nil {
		t.Errorf("%+v", got)
	} else {
		has(t, said.err, "the payload is not JSON")
	}
	if got, said := producer.put(1, `"`+strings.Repeat("x", 300000)+`"`, "--destination", "r", "--type", "t"); got.Rejected != 1 {
		t.Errorf("%+v", got)
	} else {
		has(t, said.err, "payload of 300002 bytes is larger than the 300000 bytes allowed")
	}
	producer.put(4, "{}", "--destination", "nowhere", "--type", "t")
	if got := run(t, producer.db, exitGrant, "--config", b.config, "enqueue", "-f", b.lines(event("E-1", ""))); !strings.Contains(got.err, "lacks a grant") {
		t.Errorf("%s", got.err)
	}
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

// The same file by two programs at once: each event is enqueued by one of them.
func TestEnqueueTheSameFileTwiceAtOnce(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	const n = 20_000
	var text strings.Builder
	for i := range n {
		text.WriteString(event(fmt.Sprintf("E-%d", i*7919%n), ""))
	}
	file := b.lines(text.String())
	var programs []*testbed.Process
	for range 2 {
		programs = append(programs, testbed.Start(t, testbed.Cmd{
			Args: []string{"enqueue", "--config", b.config, "-f", file, "-o", "json"}, Env: []string{"WHCTL_DATABASE_URL=" + b.db.URL},
		}))
	}
	var enqueued, duplicates int
	for _, p := range programs {
		r := p.Wait()
		if r.Code != 0 {
			t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
		}
		sum := decode[struct{ Enqueued, Duplicates, Conflicts, Rejected int }](t, r.Stdout)
		enqueued, duplicates = enqueued+sum.Enqueued, duplicates+sum.Duplicates
	}
	if enqueued != n || duplicates != n || b.rows() != n {
		t.Errorf("%d enqueued, %d duplicates, %d rows; want %d of each", enqueued, duplicates, b.rows(), n)
	}
	testbed.Check(t, b.db)
}

// awaitRows waits until so many deliveries have been committed. The server answers each
// question in its time, so that nothing is slept on.
func (b bench) awaitRows(n int64) {
	b.Helper()
	for begin := time.Now(); b.rows() < n; {
		if time.Since(begin) > 30*time.Second {
			b.Fatalf("%d rows came, want %d", b.rows(), n)
		}
	}
}

// stream starts enqueue on an input that stays open.
func (b bench) stream(url string) (*testbed.Process, *os.File) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = errors.Join(r.Close(), w.Close()) }) // the tests may have closed them
	return testbed.Start(b.T, testbed.Cmd{
		Args: []string{"enqueue", "--config", b.config, "-f", "-", "-o", "json"}, Env: []string{"WHCTL_DATABASE_URL=" + url}, Stdin: r,
	}), w
}

func TestEnqueueIsTold(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	program, in := b.stream(b.db.URL)
	if _, err := io.WriteString(in, event("E-1", "")+event("E-2", "")+`{"half`); err != nil {
		t.Fatal(err)
	}
	b.awaitRows(2)
	program.Signal(syscall.SIGTERM)
	r := program.Wait()
	if r.Code != exitTerminated || r.Stdout != `{"enqueued":2,"duplicates":0,"conflicts":0,"rejected":0}`+"\n" {
		t.Errorf("exit %d, %s", r.Code, r.Stdout)
	}
	has(t, r.Stderr, "whctl: standard input: stopped after line 2; what was enqueued stays, and the same lines again count as duplicates: stopped by terminated")
	if b.rows() != 2 {
		t.Errorf("%d rows", b.rows())
	}
}

// The database goes away in the middle: what it has stays, and what was said says so.
func TestEnqueueLosesTheDatabase(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	role, url := b.db.Login(t, "whctl_worker")
	program, in := b.stream(url)
	if _, err := io.WriteString(in, event("E-1", "")+"\n"+event("E-2", "")); err != nil {
		t.Fatal(err)
	}
	b.awaitRows(2)
	testbed.Exec(t, b.db, `ALTER ROLE `+role+` NOLOGIN`) // a refused log-in is not tried for long
	testbed.Exec(t, b.db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, role)
	go func() {
		_, _ = in.Write(bytes.Repeat([]byte(event("E-3", "")), 10)) // the program ends before it has read all
		_ = in.Close()
	}()
	r := program.Wait()
	if r.Code != exitUnreachable || r.Stdout != `{"enqueued":2,"duplicates":0,"conflicts":0,"rejected":0}`+"\n" {
		t.Errorf("exit %d, %s", r.Code, r.Stdout)
	}
	has(t, r.Stderr, "whctl: standard input: stopped after line 3; what was enqueued stays", "database unreachable")
}
