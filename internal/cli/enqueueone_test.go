package cli

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

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
