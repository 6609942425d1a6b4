package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/work"
)

func TestSignatureOfAKey(t *testing.T) {
	w := file(`keys:
  standard: {current: {env: A}}
  named: {current: {env: A}, previous: {env: B}, signature: {type: standard-webhooks}}
  plain: {current: {file: p.key}, signature: {type: hmac-sha256-hex, header: X-Signature}}
  full:
    current: {file: /run/full.key}
    signature: {type: hmac-sha256-hex, header: x-hub-signature-256, timestamp_header: X-Timestamp, prefix: "sha256="}
`)
	w.files["/etc/whctl/whctl.yaml"], w.path = w.files["whctl.yaml"], "/etc/whctl/whctl.yaml"
	w.env = map[string]string{"WHCTL_KEYS__PLAIN__SIGNATURE__PREFIX": "v0="}
	c := w.load(t)
	env := func(name string) work.Reference { return work.Reference{Env: name} }
	want := map[string]config.Key{
		"standard": {Current: env("A"), Signature: work.Signature{Type: work.StandardWebhooks}},
		"named":    {Current: env("A"), Previous: env("B"), Signature: work.Signature{Type: work.StandardWebhooks}},
		"plain":    {Current: work.Reference{File: "/etc/whctl/p.key"}, Signature: work.Signature{Type: work.HMACSHA256Hex, Header: "X-Signature", Prefix: "v0="}},
		"full": {Current: work.Reference{File: "/run/full.key"}, Signature: work.Signature{
			Type: work.HMACSHA256Hex, Header: "x-hub-signature-256", TimestampHeader: "X-Timestamp", Prefix: "sha256=",
		}},
	}
	if diff := cmp.Diff(want, c.Keys); diff != "" {
		t.Error(diff)
	}
	shown := map[string]string{}
	for _, s := range c.Settings() {
		shown[s.Path] = s.Value + " from " + s.Origin
	}
	for path, want := range map[string]string{
		"keys.standard.signature.type":         "standard-webhooks from default",
		"keys.full.signature.type":             "hmac-sha256-hex from file /etc/whctl/whctl.yaml:7",
		"keys.full.signature.header":           "x-hub-signature-256 from file /etc/whctl/whctl.yaml:7",
		"keys.full.signature.timestamp_header": "X-Timestamp from file /etc/whctl/whctl.yaml:7",
		"keys.plain.signature.prefix":          "v0= from environment WHCTL_KEYS__PLAIN__SIGNATURE__PREFIX",
	} {
		if shown[path] != want {
			t.Errorf("%s: %q, want %q", path, shown[path], want)
		}
	}
}

func TestSignaturesThatCannotBe(t *testing.T) {
	const plain = "type: hmac-sha256-hex, header: X-Signature"
	tests := []struct {
		name, signature string
		want            []string
	}{
		{"no such type", "type: hmac-sha1", []string{`keys.a.signature.type: "hmac-sha1" is no type of signature (want standard-webhooks or hmac-sha256-hex)`}},
		{"no such key", plain + ", timestamp-header: X-T", []string{"keys.a.signature.timestamp-header: unknown key (nearest known key: keys.a.signature.timestamp_header)"}},
		{"no header", "type: hmac-sha256-hex, prefix: a", []string{"whctl.yaml:3: keys.a.signature.header: is missing"}},
		{"an empty header", "type: hmac-sha256-hex, header: ''", []string{`keys.a.signature.header: "" is no header name`}},
		{"no header's name", "type: hmac-sha256-hex, header: X Bad", []string{`keys.a.signature.header: "X Bad" is no header name (want the name of a header that the receiver looks for, such as X-Signature)`}},
		{"whctl's own", "type: hmac-sha256-hex, header: webhook-signature", []string{`keys.a.signature.header: "webhook-signature" is whctl's own`}},
		{"the idempotency key", plain + ", timestamp_header: idempotency-key", []string{`keys.a.signature.timestamp_header: "idempotency-key" is whctl's own`}},
		{"the connection's", plain + ", timestamp_header: content-length", []string{`keys.a.signature.timestamp_header: "content-length" belongs to the connection`}},
		{"the body's type", "type: hmac-sha256-hex, header: content-type", []string{`keys.a.signature.header: "content-type" says what the body is`}},
		{"one header for both", plain + ", timestamp_header: x-signature", []string{"keys.a.signature.timestamp_header: is the header of the signature too (want another one)"}},
		{"a blank before", plain + ", prefix: ' sha256='", []string{"keys.a.signature.prefix: cannot stand before a signature (want at most 64 visible ASCII characters, such as sha256=)"}},
		{"a line end", plain + `, prefix: "hunter2\r\nX-Evil: 1"`, []string{"keys.a.signature.prefix: cannot stand before"}},
		{"a long prefix", plain + ", prefix: " + strings.Repeat("hunter2", 10), []string{"keys.a.signature.prefix: cannot stand before"}},
		{"a header by default", "header: X-Signature", []string{"keys.a.signature.header: has no use with type standard-webhooks (take it out, or set type: hmac-sha256-hex)"}},
		{
			"of the wrong type", "type: standard-webhooks, header: X-S, timestamp_header: X-T, prefix: a",
			[]string{"keys.a.signature.header: has no use", "keys.a.signature.prefix: has no use", "keys.a.signature.timestamp_header: has no use"},
		},
		{"a word", "hmac-sha256-hex", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "keys:\n  a: {current: {env: A},\n    signature: {" + tt.signature + "}}"
			want := tt.want
			if want == nil {
				text = strings.NewReplacer("{"+tt.signature+"}", tt.signature).Replace(text)
				want = []string{"keys.a.signature: want a group of keys (header, prefix, timestamp_header, type)"}
			}
			_, err := config.Load(file(text).options())
			wantProblems(t, err, want...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("quotes what may be a secret")
			}
		})
	}
}

// A receiver of an older scheme looks for one signature.
func TestAPlainSignatureHasNoPreviousKey(t *testing.T) {
	_, err := config.Load(file("keys:\n  a:\n    current: {env: A}\n    previous: {env: B}\n    signature: {type: hmac-sha256-hex, header: X-S}").options())
	wantProblems(t, err, "whctl.yaml:4: keys.a.previous: has no use with signature type hmac-sha256-hex: its receivers know one signature, so current signs alone (take it out)")
}
