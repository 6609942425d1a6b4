package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// plainCheck is the check of a receiver with an older scheme, from whctl's own text: the
// lower-case hex of the HMAC-SHA256 of the body, or of the seconds, a full stop and the
// body.
func plainCheck(key []byte, seconds, signature string, body []byte) error {
	mac := hmac.New(sha256.New, key)
	if seconds != "" {
		mac.Write([]byte(seconds + "."))
	}
	mac.Write(body)
	if want := hex.EncodeToString(mac.Sum(nil)); signature != want {
		return fmt.Errorf("signature %q, want %q", signature, want)
	}
	return nil
}

// A receiver with an older scheme: what it checks, what it no longer gets, and that a
// destination cannot set the same header.
func TestAnOlderSchemeOfSigning(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(settings + `keys:
  bare: {current: {env: TEXT}, signature: {type: hmac-sha256-hex, header: X-Signature}}
  full: {current: {env: BASE64}, signature: {type: hmac-sha256-hex, header: x-hub-signature-256, timestamp_header: X-Timestamp, prefix: "sha256="}}
`)
	b.env = []string{"TEXT=a text of the older kind", "BASE64=" + keyOne, "TOKEN=s3cret"}
	bare, full := b.receiver("bare", testbed.Script(500, 200)), b.receiver("full", testbed.Answer(200))
	taken := b.receiver("taken", testbed.Answer(200))
	for name, key := range map[string]string{"bare": "bare", "full": "full", "taken": "full"} {
		b.signing(name, key)
	}
	b.put("bare", "b-1", "caf\u00e9")
	b.put("full", "f-1", "")
	b.put("full", "f-2", `{"a":1}`)
	file := filepath.Join(t.TempDir(), "destinations.yaml")
	text := "destinations: [{name: taken, url: '" + taken.URL + "', key: full, headers: {x-timestamp: {env: TOKEN}}}]"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := b.must(78, "destination", "apply", "-f", file); !strings.Contains(res.Stderr, `header "x-timestamp" is set by the signature of key "full"`) {
		t.Errorf("apply says %s", res.Stderr)
	}
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET headers = '{"x-timestamp": {"env": "TOKEN"}}' WHERE name = 'taken'`)
	b.put("taken", "t-1", `{}`)
	b.must(78, "deliver", "--once") // what "taken" has is held, the others go
	b.dueAgain()
	b.must(78, "deliver", "--once")
	for _, req := range append(bare.Requests(), full.Requests()...) {
		h, err := req.Header, error(nil)
		if req.Key() == "b-1" {
			err = plainCheck([]byte("a text of the older kind"), "", h.Get("X-Signature"), req.Body)
		} else {
			err = plainCheck(decodedKey(t, keyOne), h.Get("X-Timestamp"), strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="), req.Body)
			if seconds, bad := strconv.ParseInt(h.Get("X-Timestamp"), 10, 64); bad != nil || math.Abs(float64(seconds-req.At.Unix())) > 5 {
				t.Errorf("%s: time %q", req.Key(), h.Get("X-Timestamp"))
			}
		}
		if err != nil || h.Get("webhook-id") != req.Key() || h.Values("webhook-signature") != nil || h.Values("webhook-timestamp") != nil {
			t.Errorf("%s: %v; %v", req.Key(), err, h)
		}
	}
	if bare.Count() != 2 || full.Count() != 2 || b.status("b-1", "state") != "delivered" {
		t.Errorf("%d and %d requests, want 2 of each; %s", bare.Count(), full.Count(), b.status("b-1", "state"))
	}
	if taken.Connections() != 0 || b.status("t-1", "state || ' ' || attempts") != "scheduled 0" {
		t.Errorf("header set twice: %d connections, %s", taken.Connections(), b.status("t-1", "state || ' ' || attempts"))
	}
}

// What openssl dgst -sha256 -hmac 0123456789abcdef makes of the published example's body.
func TestTheCheckOfAnOlderSchemeTakesWhatOpenSSLMakes(t *testing.T) {
	body := []byte(`{"test": 2432232314}`)
	for seconds, signature := range map[string]string{
		"":           "fde19d5ba93fd5a1c750ad3a98c5b9c8d1dbee574c347be6cc753e72a48b4c47",
		"1614265330": "0d359f9ba554e6a83c3e5453aef1f598c2e3fa475c424382a6a858b8a9a45672",
	} {
		if err := plainCheck([]byte("0123456789abcdef"), seconds, signature, body); err != nil {
			t.Error(err)
		}
	}
}

// A secret that is wrong is named by its key before anything is claimed, whoever signs
// with it.
func TestWrongSecretsAreRefusedAtStart(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", testbed.Answer(200))
	id := b.due("r", 1)[0]
	b.configure(settings + `keys:
  carrier: {current: {file: STANDARD}}
  legacy: {current: {file: PLAIN}, signature: {type: hmac-sha256-hex, header: X-Signature}}
`)
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(b.config), file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const good, plain = "\r\n " + keyOne + "\r\n", "s3cret-of-the-older-kind\n"
	for _, bad := range []string{"", " \r\n", "whsec_", "whsec_s3cret-s3cret_s3cret_s3cre", "whsec_c3cretAECAwQFBgcICQoLDA", "whsec_AAEC AwQFBgcI", keyOne + "\n" + keyTwo} {
		write("STANDARD", bad)
		write("PLAIN", plain)
		b.refusedAtStart(id, bad, `key "carrier": `)
	}
	for _, bad := range []string{"", "\n", "s3cret too sho\n", "whsec_", "whsec_" + "c3cret==", plain + plain} {
		write("STANDARD", good)
		write("PLAIN", bad)
		b.refusedAtStart(id, bad, `key "legacy": `)
	}
	write("STANDARD", "s3cret")
	b.refusedAtStart(id, "s3cret", `key "carrier": `, `key "legacy": `)
	if r.Count() != 0 {
		t.Errorf("%d requests", r.Count())
	}
	write("STANDARD", good)
	write("PLAIN", plain)
	if s := b.once(); s.Delivered != 1 {
		t.Errorf("with good ones: %+v", s)
	}
}

func (b *theBench) refusedAtStart(id, secret string, names ...string) {
	b.t.Helper()
	res := b.must(78, "deliver", "--once")
	for _, name := range names {
		if !strings.Contains(res.Stderr, name) {
			b.t.Errorf("%q: %s does not name %s", secret, res.Stderr, name)
		}
	}
	for _, part := range strings.Fields(secret) {
		if part = strings.TrimPrefix(part, "whsec_"); len(part) > 3 && strings.Contains(res.Stdout+res.Stderr, part) {
			b.t.Errorf("%q is quoted in %s", part, res.Stderr)
		}
	}
	if state := b.status(id, "state || ' ' || attempts"); state != "scheduled 0" {
		b.t.Errorf("%q: the delivery is %s", secret, state)
	}
}
