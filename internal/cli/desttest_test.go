package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/whctl/internal/testbed"
)

const testConfig = `
policies:
  default: {timeout: 10s}
  hasty: {extends: default, timeout: 200ms}
  raw: {extends: default, body: raw}
egress: {allow_cidrs: [127.0.0.1/32], ca_file: %CA%}
keys:
  carrier: {current: {env: KEY}, previous: {env: OLD}}
  legacy: {current: {env: LEGACY}, signature: {type: hmac-sha256-hex, header: X-Signature, timestamp_header: X-Time}}
  gone: {current: {env: NOSUCH}}
`

// testBench is a bench whose destinations are put in by hand.
type testBench struct {
	bench
	env map[string]string
}

func newTestBench(t *testing.T) testBench {
	t.Helper()
	return testBench{newBench(t, strings.ReplaceAll(testConfig, "%CA%", testbed.CAFile(t))), map[string]string{
		"KEY": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "OLD": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"LEGACY": "a text of the older kind", "TOKEN": "Bearer Pw-7731",
	}}
}

// destination puts one in; more is what follows url in the statement.
func (b testBench) destination(name, url, columns, values string) {
	b.Helper()
	testbed.Exec(b.T, b.db, `INSERT INTO whctl.destinations (name, url`+columns+`) VALUES ($1, $2`+values+`)`, name, url)
}

func (b testBench) test(code int, args ...string) answer {
	b.Helper()
	got := call{db: b.db, env: b.env, args: append([]string{"--config", b.config, "destination", "test"}, args...)}.run(b.T)
	if got.code != code {
		b.Fatalf("test %v: exit %d, want %d\n%s%s", args, got.code, code, got.out, got.err)
	}
	return got
}

// stages is the names of a test's stages; the one that failed with an exclamation mark.
func stages(doc testedJSON) string {
	var names []string
	for _, s := range doc.Stages {
		if !s.OK {
			s.Stage = "!" + s.Stage
		}
		names = append(names, s.Stage)
	}
	return strings.Join(names, " ")
}

func TestDestinationTest(t *testing.T) {
	b := newTestBench(t)
	r := testbed.Receiver(t, testbed.ReceiverOptions{Handler: testbed.Answer(http.StatusNoContent)})
	b.destination("good", r.URL+"/TOK-5542?q=Q-9910", ", signing_key, headers", `, 'carrier', '{"Authorization": {"env": "TOKEN"}}'`)
	got := b.test(0, "good", "-o", "json")
	doc := decode[testedJSON](t, got.out)
	if stages(doc) != "policy key url headers dns guard connect tls request status" || got.err != "" {
		t.Errorf("%s%s", got.out, got.err)
	}
	if !doc.OK || *doc.Class != "ok" || *doc.Status != 204 || doc.Message != nil || doc.Destination != "good" || doc.URL != "https://"+r.Address+"/…" {
		t.Errorf("%s", got.out)
	}
	var sum float64
	for _, s := range doc.Stages {
		sum += s.Seconds
	}
	if doc.Seconds <= 0 || sum > doc.Seconds+1e-5*float64(len(doc.Stages)) {
		t.Errorf("%v s in all, %v s in stages", doc.Seconds, sum)
	}
	has(t, b.test(0, "good").out, "STAGE", "RESULT", "TIME", "MESSAGE", "default: 10s for the whole request",
		"carrier, standard-webhooks, values: 2", "1 of the destination's own, signatures: 2", "TLS 1.3, the certificate ends on", "204 No Content")
	if got := b.test(0, "good", "--quiet"); got.out+got.err != "" {
		t.Errorf("%+v", got)
	}
	if name := b.test(0, "good", "-o", "name").out; name != "good\n" {
		t.Errorf("%q", name)
	}
	if lines := strings.Count(b.test(0, "good", "-o", "jsonl").out, "\n"); lines != 1 {
		t.Errorf("%d lines of JSONL", lines)
	}
	has(t, b.test(0, "good", "-o", "csv").out, "STAGE,RESULT,TIME,MESSAGE", "status,ok,")
	if out := b.test(0, "good", "--jq", ".stages | length").out; out != "10\n" {
		t.Errorf("%q", out)
	}
	b.checkPings(r, 7)
	if n := testbed.QueryInt(t, b.db, `SELECT (SELECT count(*) FROM whctl.attempts) + (SELECT count(*) FROM whctl.deliveries) + (SELECT count(*) FROM whctl.envelopes)`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// checkPings holds what the receiver got against what a ping is.
func (b testBench) checkPings(r *testbed.Endpoint, n int) {
	b.Helper()
	ids := map[string]bool{}
	for _, req := range r.Requests() {
		h := req.Header
		id, err := uuid.Parse(req.Key())
		if err != nil || id.Version() != 7 || h.Get("webhook-id") != req.Key() || h.Get("X-Webhook-Attempt") != "1" || h.Get("X-Webhook-Generation") != "1" ||
			h.Get("User-Agent") != "whctl/test" || h.Get("Authorization") != "Bearer Pw-7731" || strings.Count(h.Get("webhook-signature"), "v1,") != 2 {
			b.Errorf("%v", h)
		}
		ids[req.Key()] = true
		var body struct {
			EventID, DeliveryID, Type, Version, Subject, Tenant string
			OccurredAt                                          time.Time
			Data                                                json.RawMessage
		}
		if err := json.Unmarshal(req.Body, &body); err != nil || body.DeliveryID != req.Key() || body.Type != "whctl.ping" || string(body.Data) != "{}" || body.OccurredAt.IsZero() {
			b.Errorf("%v in %s", err, req.Body)
		}
	}
	if len(ids) != n || r.Count() != n {
		b.Errorf("%d requests with %d ids, want %d of each", r.Count(), len(ids), n)
	}
}

// A raw body, by the destination or its policy; and a plain signature.
func TestDestinationTestWithARawBody(t *testing.T) {
	b := newTestBench(t)
	r := testbed.Receiver(t, testbed.ReceiverOptions{})
	b.destination("by-policy", r.URL, ", policy, signing_key", ", 'raw', 'legacy'")
	b.destination("by-apply", r.URL, ", body", ", 'raw'")
	has(t, b.test(0, "by-policy").out, "legacy, hmac-sha256-hex", "signed in X-Signature and X-Time")
	has(t, b.test(0, "by-apply").out, "none: the request is not signed")
	requests := r.Requests()
	for _, req := range requests {
		if string(req.Body) != "{}" {
			t.Errorf("body %q", req.Body)
		}
	}
	if h := requests[0].Header; !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(h.Get("X-Signature")) || h.Get("X-Time") == "" || h.Get("webhook-signature") != "" {
		t.Errorf("%v", h)
	}
}

func TestDestinationTestThatFails(t *testing.T) {
	b := newTestBench(t)
	stranger := testbed.Certificate(t, testbed.CertificateOptions{Stranger: true})
	expired := testbed.Certificate(t, testbed.CertificateOptions{Expired: true})
	elsewhere := testbed.Certificate(t, testbed.CertificateOptions{Hosts: []string{"other.example"}})
	receiver := func(o testbed.ReceiverOptions) string { return testbed.Receiver(t, o).URL }
	answers := func(status int) string { return receiver(testbed.ReceiverOptions{Handler: testbed.Answer(status)}) }
	never := make(chan struct{})
	hangs := func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(never) }
	trap := testbed.Trap(t, "127.0.0.3")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	const configured, sent = "policy key ", "policy key url headers dns guard connect tls request "
	for name, x := range map[string]struct {
		url, columns, values string
		code                 int
		class                string
		stages               string
		say                  []string
	}{
		"401":          {answers(401), "", "", 1, "unauthorized", sent + "!status", []string{"401 Unauthorized (", "give the destination a key or a header"}},
		"403 signed":   {answers(403), ", signing_key", ", 'carrier'", 1, "unauthorized", sent + "!status", []string{"compare key and headers"}},
		"redirect":     {answers(302), "", "", 1, "redirect", sent + "!status", []string{"redirects are not followed"}},
		"busy":         {answers(429), "", "", 1, "rate_limited", sent + "!status", []string{"try later"}},
		"not there":    {answers(404), "", "", 1, "rejected", sent + "!status", []string{"whctl.ping"}},
		"in trouble":   {answers(503), "", "", 1, "unavailable", sent + "!status", []string{"in trouble"}},
		"hangs":        {receiver(testbed.ReceiverOptions{Handler: hangs}), ", policy", ", 'hasty'", 1, "timeout", sent + "!status", []string{"no answer within 200ms", "policies.hasty.timeout"}},
		"stranger":     {receiver(testbed.ReceiverOptions{Certificate: &stranger}), "", "", 1, "tls", "policy key url headers dns guard connect !tls", []string{"unknown authority", "egress.ca_file"}},
		"expired":      {receiver(testbed.ReceiverOptions{Certificate: &expired}), "", "", 1, "tls", "policy key url headers dns guard connect !tls", []string{"expired", "the receiver has to renew it"}},
		"elsewhere":    {receiver(testbed.ReceiverOptions{Certificate: &elsewhere}), "", "", 1, "tls", "policy key url headers dns guard connect !tls", []string{"wrong host"}},
		"no listener":  {"https://" + l.Addr().String(), "", "", 1, "connect", "policy key url headers dns guard !connect", []string{"connection refused", "check host and port"}},
		"no such name": {"https://nosuch-.invalid/", "", "", 1, "dns", "policy key url headers !dns", []string{"no such host", "name servers"}},
		"blocked":      {"https://" + trap.Address, "", "", 3, "blocked", configured + "!url", []string{"egress.allow_cidrs"}},
		"plain http":   {"http://hooks.example/", "", "", 3, "blocked", configured + "!url", []string{"egress.require_https"}},
		"invalid":      {"ftp://hooks.example/TOK-5542", "", "", 78, "invalid", configured + "!url", []string{"scheme is neither", "mend it"}},
		"bad header":   {answers(200), ", headers", `, '{"X Bad": {"env": "TOKEN"}}'`, 78, "invalid", configured + "url !headers", []string{`header "X Bad" is no header name`}},
		"no policy":    {answers(200), ", policy", ", 'nosuch'", 78, "", "!policy", []string{`policy "nosuch" is not configured (configure policies.nosuch`}},
		"no key":       {answers(200), ", signing_key", ", 'nosuch'", 78, "", "policy !key", []string{`key "nosuch" is not configured (configure keys.nosuch`}},
		"no secret":    {answers(200), ", signing_key", ", 'gone'", 78, "", "policy !key", []string{`key "gone": environment variable NOSUCH is not set`}},
		"no value":     {answers(200), ", headers", `, '{"X-A": {"env": "UNSET"}}'`, 78, "", "policy key !headers", []string{`header "X-A": environment variable UNSET is not set (set the variable`}},
		"taken header": {answers(200), ", signing_key, headers", `, 'legacy', '{"x-signature": {"env": "TOKEN"}}'`, 78, "", "policy key !headers", []string{"is set by the signature of key \"legacy\" as well"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := b
			b.T = t
			at := strings.ReplaceAll(name, " ", "-")
			b.destination(at, x.url, x.columns, x.values)
			got := b.test(x.code, at, "-o", "json")
			doc := decode[testedJSON](t, got.out)
			class := ""
			if doc.Class != nil {
				class = string(*doc.Class)
			}
			if doc.OK || class != x.class || stages(doc) != x.stages || doc.Message == nil {
				t.Errorf("stages %s, class %q: %s", stages(doc), class, got.out)
			}
			has(t, doc.Stages[len(doc.Stages)-1].Message, x.say...)
			has(t, got.err, "whctl: ", `destination "`+at+`"`, *doc.Message)
			if strings.Contains(got.out+got.err, "Pw-7731") || strings.Contains(got.out+got.err, "TOK-5542") {
				t.Errorf("a secret is shown: %+v", got)
			}
			if quiet := b.test(x.code, at, "--quiet"); quiet.out == "" {
				t.Error("a quiet test says nothing of its failure")
			}
		})
	}
	has(t, b.test(4, "unknown").err, `destination "unknown": not found`)
}

// A key that is wrong is named before anything is sent, whoever signs with it, as a run
// of deliver would.
func TestDestinationTestWithAWrongKey(t *testing.T) {
	b := newTestBench(t)
	r := testbed.Receiver(t, testbed.ReceiverOptions{})
	b.destination("d", r.URL, "", "")
	for _, secret := range []string{"", " \r\n", "s3cret", "whsec_", "whsec_s3cret"} {
		b.env["LEGACY"] = secret
		got := b.test(78, "d")
		has(t, got.err, `key "legacy": `)
		if strings.Contains(got.err, "s3cret") || got.out != "" {
			t.Errorf("%+v", got)
		}
	}
	if r.Count() != 0 {
		t.Errorf("%d requests", r.Count())
	}
}
