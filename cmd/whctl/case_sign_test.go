package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"example.com/whctl/internal/testbed"
)

const (
	keyOne = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	keyTwo = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// standardCheck is a receiver's check, written from the text of the specification alone:
// the signature header is a list, parted by blanks, of v1 and a comma and the base64 of
// the HMAC-SHA256 of id, a full stop, timestamp, a full stop, body.
func standardCheck(key []byte, h http.Header, body []byte) error {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for one := range strings.FieldsSeq(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(one), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature fits")
}

// decodedKey is the key behind whsec_.
func decodedKey(t *testing.T, secret string) []byte {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The check of the cases below takes the published example (T15), and nothing that
// differs from it in a byte.
func TestTheCheckTakesThePublishedExample(t *testing.T) {
	key := decodedKey(t, keyTwo)
	const body = `{"test": 2432232314}`
	published := func() http.Header {
		return http.Header{
			"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
			"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		}
	}
	if err := standardCheck(key, published(), []byte(body)); err != nil {
		t.Fatal(err)
	}
	for i := range len(body) {
		changed := []byte(body)
		changed[i] ^= 1
		if standardCheck(key, published(), changed) == nil {
			t.Errorf("byte %d of the body may change", i)
		}
	}
	for name := range published() {
		h := published()
		changed := []byte(h.Get(name))
		changed[4] ^= 1
		h.Set(name, string(changed))
		if standardCheck(key, h, []byte(body)) == nil {
			t.Errorf("%s may change", name)
		}
	}
	if standardCheck([]byte(strings.TrimPrefix(keyTwo, "whsec_")), published(), []byte(body)) == nil {
		t.Error("the text of the key is taken for the key")
	}
}

// signing makes a destination sign with a key.
func (b *theBench) signing(destination, key string) {
	b.t.Helper()
	testbed.Exec(b.t, b.db, `UPDATE whctl.destinations SET signing_key = $2 WHERE name = $1`, destination, key)
}

// put enqueues a payload as it is, with the delivery id.
func (b *theBench) put(destination, id, payload string) {
	b.t.Helper()
	cmd := b.cmd("enqueue", "--destination", destination, "--type", "case", "--subject", id, "--delivery-id", id, "--payload", "-")
	cmd.Stdin = strings.NewReader(payload)
	if r := testbed.Run(b.t, cmd); r.Code != 0 {
		b.t.Fatalf("enqueue %s: exit %d: %s", id, r.Code, r.Stderr)
	}
}

// H15: a signature that an independent checker takes.
func TestH15ASignatureThatAnIndependentCheckerTakes(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(settings + "keys: {k: {current: {env: K}}}\n")
	b.env = []string{"K=" + keyOne}
	r := b.receiver("r", testbed.Answer(200))
	b.signing("r", "k")
	bodies := map[string]string{"json": `{"a": 1}`, "empty": "", "letter": "caf\u00e9 \u00e9"}
	for id, body := range bodies {
		b.put("r", id, body)
	}
	if s := b.once(); s.Delivered != 3 {
		t.Fatalf("summary %+v", s)
	}
	for _, req := range r.Requests() {
		id := req.Header.Get("webhook-id")
		if body, sent := bodies[id]; !sent || id != req.Key() || string(req.Body) != body {
			t.Errorf("id %q, key %q, body %q", id, req.Key(), req.Body)
		}
		if err := standardCheck(decodedKey(t, keyOne), req.Header, req.Body); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if standardCheck([]byte(strings.TrimPrefix(keyOne, "whsec_")), req.Header, req.Body) == nil {
			t.Errorf("%s: the key is the text, not what it stands for", id)
		}
		stamp, err := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
		if err != nil || math.Abs(float64(stamp-req.At.Unix())) > 5 { // the time limit of 2 s keeps them near each other
			t.Errorf("%s: time %q, arrived at %d", id, req.Header.Get("webhook-timestamp"), req.At.Unix())
		}
	}
	if r.Count() != 3 {
		t.Errorf("%d requests, want 3", r.Count())
	}
}

// H16: the same secret in files as people write them.
func TestH16SecretReadFromAFile(t *testing.T) {
	b := newBench(t)
	defer b.check()
	dir := t.TempDir()
	keys := "keys:\n"
	for name, text := range map[string]string{
		"plain": "%s", "newline": "%s\n", "carriage": "%s\r\n", "blanks": "  %s\t ",
	} {
		for scheme, secret := range map[string]string{"standard": keyOne, "older": "a text of the older kind"} {
			file := filepath.Join(dir, scheme+"-"+name)
			if err := os.WriteFile(file, fmt.Appendf(nil, text, secret), 0o600); err != nil {
				t.Fatal(err)
			}
			keys += fmt.Sprintf("  %s-%s: {current: {file: %s}%s}\n", scheme, name, file,
				map[string]string{"older": ", signature: {type: hmac-sha256-hex, header: X-Signature}"}[scheme])
		}
	}
	b.configure(settings + keys)
	r := testbed.Receiver(t, testbed.ReceiverOptions{})
	b.seen = append(b.seen, r)
	for line := range strings.Lines(keys) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), ": {"); ok {
			b.db.Destination(t, name, r.URL)
			b.signing(name, name)
			b.put(name, name, `{}`)
		}
	}
	if s := b.once(); s.Delivered != 8 {
		t.Fatalf("summary %+v", s)
	}
	for _, req := range r.Requests() {
		var err error
		if strings.HasPrefix(req.Key(), "standard") {
			err = standardCheck(decodedKey(t, keyOne), req.Header, req.Body)
		} else {
			err = plainCheck([]byte("a text of the older kind"), "", req.Header.Get("X-Signature"), req.Body)
		}
		if err != nil {
			t.Errorf("%s: %v", req.Key(), err)
		}
	}
}

// A key that has not come yet holds its own destination back, which everything says that
// tells of what is held, and the run ends as one that lacks its configuration.
func TestAMissingKeyIsToldAsAHold(t *testing.T) {
	b := newBench(t)
	defer b.check()
	file := filepath.Join(t.TempDir(), "whctl.prom")
	b.configure(settings + "keys: {k: {current: {env: LATER}}}\n")
	r := b.receiver("r", nil)
	b.signing("r", "k")
	ids := b.due("r", 3)
	res := b.must(78, "deliver", "--once", "-o", "json", "--metrics-file", file)
	if s := b.summaryOf(res); s.Claimed != 0 || s.HeldBack["not_ready"] != 3 || !strings.Contains(res.Stderr, `key "k"`) {
		t.Errorf("summary %+v, stderr %s", s, res.Stderr)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `whctl_held_destinations{reason="not_ready"} 1`+"\n") {
		t.Errorf("%v, metrics:\n%s", err, text)
	}
	b.env = []string{"LATER=" + keyOne}
	if s := b.once(); s.Delivered != 3 || s.HeldBack["not_ready"] != 0 {
		t.Errorf("with the key: %+v", s)
	}
	b.eachOnce(ids, r)
}

// Receivers check with the specification's own library, one with the first key and one
// with the second, while the sender goes from the first to both to the second.
func TestKeysRotateWithoutAGap(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.env = []string{"ONE=" + keyOne, "TWO=" + keyTwo}
	r := b.receiver("r", testbed.Answer(200))
	b.signing("r", "k")
	takes := func(secret string, h http.Header, body []byte) bool {
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return w.Verify(body, h) == nil
	}
	for i, x := range []struct {
		key      string
		one, two bool
	}{{"{current: {env: ONE}}", true, false}, {"{current: {env: TWO}, previous: {env: ONE}}", true, true}, {"{current: {env: TWO}}", false, true}} {
		b.configure(settings + "keys: {k: " + x.key + "}\n")
		b.put("r", fmt.Sprint("d", i), `{"n":1}`)
		if s := b.once(); s.Delivered != 1 {
			t.Fatalf("summary %+v", s)
		}
		req := r.Requests()[i]
		if one, two := takes(keyOne, req.Header, req.Body), takes(keyTwo, req.Header, req.Body); one != x.one || two != x.two {
			t.Errorf("%s: taken with the first key: %v, with the second: %v", x.key, one, two)
		}
		if changed := []byte(`{"n":2}`); takes(keyOne, req.Header, changed) || takes(keyTwo, req.Header, changed) {
			t.Errorf("%s: a changed body is taken", x.key)
		}
	}
}
