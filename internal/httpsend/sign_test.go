package httpsend

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"example.com/whctl/internal/work"
)

// What openssl dgst -sha256 -hmac makes of the same bytes.
func TestPlainSignatures(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback()) // its clock stands at 1614265330
	for name, x := range map[string]struct {
		secret    Key
		signature work.Signature
		body      string
		want      map[string]string
	}{
		"the body alone": {
			"0123456789abcdef",
			work.Signature{Header: "X-Signature"},
			`{"test": 2432232314}`,
			map[string]string{"X-Signature": "fde19d5ba93fd5a1c750ad3a98c5b9c8d1dbee574c347be6cc753e72a48b4c47"},
		},
		"with the time": {
			"0123456789abcdef",
			work.Signature{Header: "x-hub-signature-256", TimestampHeader: "x-hub-time", Prefix: "sha256="},
			`{"test": 2432232314}`,
			map[string]string{"X-Hub-Signature-256": "sha256=0d359f9ba554e6a83c3e5453aef1f598c2e3fa475c424382a6a858b8a9a45672", "X-Hub-Time": "1614265330"},
		},
		"a secret in base64, no body": {
			"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
			work.Signature{Header: "X-Signature", TimestampHeader: "X-Timestamp"},
			"",
			map[string]string{"X-Signature": "acad54da7d99a8a65ea64ee254a43b79ce1ae834124036c23142f9f4e34ec004", "X-Timestamp": "1614265330"},
		},
		"a secret with blanks around and inside": {
			" s3cret/wörd \"quoted\"\r\n",
			work.Signature{Header: "X-Signature"},
			`{"u":"é"}`,
			map[string]string{"X-Signature": "e130d450097fafe9541986914db39b6cce05d8aea3362d0471a8fec4574776ff"},
		},
	} {
		x.signature.Type = work.HMACSHA256Hex
		r := request(rec.url)
		r.Keys, r.Signature, r.Body = []Key{x.secret}, x.signature, []byte(x.body)
		wantClass(t, send(t, s, r), work.OK, 200)
		all := rec.seen()
		got := all[len(all)-1].header
		x.want["Webhook-Id"], x.want["Idempotency-Key"] = "d-1", "d-1"
		x.want["Webhook-Signature"], x.want["Webhook-Timestamp"] = "", ""
		for header, want := range x.want {
			if got.Get(header) != want {
				t.Errorf("%s: %s: %q, want %q", name, header, got.Get(header), want)
			}
		}
	}
}

// Whoever has the key before gets a signature of it, and whoever has a key that was
// never there, or a request that was changed on the way, gets none.
func TestRotationForReceiversOfTheSpecification(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	const first, second, other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", secret, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, x := range []struct {
		live  []Key
		taken []string
		not   []string
	}{
		{[]Key{first}, []string{first}, []string{second, other}},
		{[]Key{second, first}, []string{first, second}, []string{other}},
		{[]Key{second}, []string{second}, []string{first, other}},
	} {
		r := request(rec.url)
		r.Keys = x.live
		wantClass(t, send(t, s, r), work.OK, 200)
		all := rec.seen()
		got := all[len(all)-1]
		for _, key := range x.taken {
			verified(t, key, got.header, got.body, true)
			verified(t, key, got.header, strings.Replace(got.body, "2432232314", "2432232315", 1), false)
			for _, name := range []string{"webhook-id", "webhook-timestamp"} {
				changed := got.header.Clone()
				changed.Set(name, changed.Get(name)+"0")
				verified(t, key, changed, got.body, false)
			}
		}
		for _, key := range x.not {
			verified(t, key, got.header, got.body, false)
		}
	}
}

// verified asks the specification's own library.
func verified(t *testing.T, key string, header http.Header, body string, want bool) {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.VerifyIgnoringTimestamp([]byte(body), header); (err == nil) != want {
		t.Errorf("%v, want taken: %v; %v %s", err, want, header, body)
	}
}

func TestSecrets(t *testing.T) {
	const standard, plain = work.StandardWebhooks, work.HMACSHA256Hex
	for _, x := range []struct {
		secret string
		t      work.SignatureType
		ok     bool
	}{
		{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, true},
		{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "", true},
		{"\r\n whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\r\n", standard, true},
		{"AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, true},
		{"whsec_AAECAwQFBgcICQoLDA0ODw==", standard, true},
		{"whsec_AAECAwQFBgcICQoLDA0ODw", standard, false},
		{"whsec_", standard, false},
		{"whsec_ ", standard, false},
		{"whsec_ AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, false},
		{"whsec_-_ECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, false},
		{"whsec_AAECAwQFBgcI CQoLDA0ODxAREhMUFRYX", standard, false},
		{"whsec_AAECAwQFBgcI\nCQoLDA0ODxAREhMUFRYX", standard, false},
		{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\r\nwhsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, false},
		{"AAECAwQFBgcI\r\nCQoLDA0ODxAREhMUFRYX", standard, false},
		{"whsec_whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, false},
		{"\ufeffwhsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", standard, false},
		{"plain text of some length", standard, false},
		{"", standard, false},
		{"0123456789abcdef", plain, true},
		{"\n0123456789 abcdé \r\n", plain, true},
		{"0123456789abcde", plain, false},
		{" 0123456789abcde ", plain, false},
		{"", plain, false},
		{"whsec_AAECAwQFBgcICQoLDA0ODw==", plain, true},
		{"whsec_AAECAwQFBgcICQoLDA0O", plain, false},
		{"whsec_0123456789abcdef of no base64", plain, false},
		{"whsec_AAECAwQFBgcI\nCQoLDA0ODxAREhMUFRYX", plain, false},
		{"0123456789abcdef\n0123456789abcdef", plain, false},
		{"\ufeff0123456789abcdef", plain, false},
		{"0123456789abcde\x00", plain, false},
		{"0123456789abcdef\xff", plain, false},
	} {
		key, err := ParseKey(x.secret, x.t)
		if x.ok != (err == nil) || x.ok && string(key) != strings.TrimSpace(x.secret) {
			t.Errorf("%q for %s: %v", x.secret, x.t, err)
		}
		if err != nil && (!errors.Is(err, work.ErrConfig) || strings.Contains(err.Error(), "AAEC") || strings.Contains(err.Error(), "0123") || strings.Contains(err.Error(), "plain text of")) {
			t.Errorf("%v", err)
		}
	}
}

// What cannot be signed is found before anything is connected.
func TestPlainSignaturesThatCannotBeSent(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	for name, change := range map[string]func(*Request){
		"a header of the destination's own":      func(r *Request) { r.Headers["x-signature"] = "s3cret" },
		"the time's is the destination's":        func(r *Request) { r.Headers["X-TIMESTAMP"] = "s3cret" },
		"one for both":                           func(r *Request) { r.Signature.TimestampHeader = "x-signature" },
		"the content type":                       func(r *Request) { r.Signature.Header = "content-type" },
		"whctl's own":                            func(r *Request) { r.Signature.Header = "webhook-id" },
		"no name":                                func(r *Request) { r.Signature.Header = "X Bad" },
		"none":                                   func(r *Request) { r.Signature.Header = "" },
		"a prefix that begins a header":          func(r *Request) { r.Signature.Prefix = "s3cret\r\nX-Evil: 1" },
		"a key of another scheme, and too short": func(r *Request) { r.Keys = []Key{"s3cret"} },
		"an empty key":                           func(r *Request) { r.Keys = []Key{""} },
	} {
		r := request(rec.url)
		r.Headers = map[string]string{"X-Tenant": "acme"}
		r.Keys = []Key{"0123456789abcdef"}
		r.Signature = work.Signature{Type: work.HMACSHA256Hex, Header: "X-Signature", TimestampHeader: "X-Timestamp"}
		change(&r)
		o := send(t, s, r)
		if o.Class != work.Invalid || strings.Contains(o.Message, "s3cret") || o.Message == "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if n := rec.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// Receivers that quote the key of a plain signature are not believed to keep it: as it is
// and as JSON writes it.
func TestAnswersThatQuoteAPlainKey(t *testing.T) {
	const key = `pl"in/s3cret-0123`
	page := `key pl"in/s3cret-0123, {"key":"pl\"in\/s3cret-0123","k":"pl\"in/s3cret-0123"}`
	rec := answering(t, fmt.Sprintf("HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s", len(page), page))
	r := request(rec.url)
	r.Keys, r.Signature = []Key{key}, work.Signature{Type: work.HMACSHA256Hex, Header: "X-Signature"}
	o := send(t, newSender(t, loopback()), r)
	wantClass(t, o, work.Unauthorized, 401)
	if want := `key [redacted], {"key":"[redacted]","k":"[redacted]"}`; o.Excerpt != want {
		t.Errorf("%q, want %q", o.Excerpt, want)
	}
}

// A signer is used again and again, for bodies and ids of all lengths.
func TestSignaturesAreTheLibrarys(t *testing.T) {
	const key = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	w, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	ready := newSigner(key)
	for n := range 200 {
		id, at, body := strings.Repeat("d", 1+n%128), time.Unix(int64(n)*15_000_000, 0), []byte(strings.Repeat("b", (n*37)%1000))
		want, err := w.Sign(id, at, body)
		if err != nil {
			t.Fatal(err)
		}
		if got := ready.sign(id, at, body); got != want {
			t.Fatalf("%d: %s, want %s", n, got, want)
		}
	}
}
