package httpsend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http/httpguts"

	"example.com/whctl/internal/work"
)

// Key is the secret of a signing key. It does not print itself.
//
// A secret that begins with whsec_ is the base64 behind it, standard and padded, in
// either scheme: the key is always what that stands for, never its text. Without the
// prefix it is read in the same way for Standard Webhooks, as the specification's
// libraries do, and is the key itself, byte for byte, for a plain signature.
type Key string

const (
	hidden    = "[key]"
	keyPrefix = "whsec_"
	// minKey is the shortest key of a plain signature, in bytes: its texts are made
	// by people, and what is shorter can be guessed from one request.
	minKey = 16
)

// ParseKey checks a secret before anything is signed with it. Blanks and line ends
// around it are not part of it. The error wraps work.ErrConfig and does not quote the
// secret.
func ParseKey(secret string, t work.SignatureType) (Key, error) {
	key := Key(strings.TrimSpace(secret))
	if t == work.HMACSHA256Hex {
		if plainKey(string(key)) == nil {
			return "", fmt.Errorf("%w: not a secret of %s: %s", work.ErrConfig, t, plainRule)
		}
		return key, nil
	}
	if newSigner(string(key)).webhook == nil {
		return "", fmt.Errorf("%w: not a signing secret: %s", work.ErrConfig, standardRule)
	}
	return key, nil
}

const (
	standardRule = "want whsec_ and the base64 of 16 bytes or more (Standard Webhooks), in the standard alphabet with its padding, on one line"
	plainRule    = "want a text of 16 bytes or more on one line, or whsec_ and the base64 of as many"
)

// String hides the key.
func (Key) String() string { return hidden }

// GoString hides the key.
func (Key) GoString() string { return hidden }

// LogValue hides the key.
func (Key) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the key.
func (Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// signer is a key made ready; nil for one that cannot be used.
type signer struct{ webhook *standardwebhooks.Webhook }

func newSigner(secret string) signer {
	key := decoded(strings.TrimPrefix(strings.TrimSpace(secret), keyPrefix))
	if len(key) < minKey {
		return signer{}
	}
	w, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return signer{}
	}
	return signer{webhook: w}
}

// decoded is the key that a text in base64 stands for, nil where it is none. Go's decoder
// skips line ends, and would make one key of a file with two. An empty key would sign
// what anybody can sign.
func decoded(text string) []byte {
	if strings.ContainsAny(text, "\r\n") {
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) == 0 {
		return nil
	}
	return key
}

// plainKey is the key of a plain signature, nil where the secret is none. Texts that do
// not print are refused: a byte order mark, a second line or raw bytes would make a key
// that the receiver does not have.
func plainKey(secret string) []byte {
	secret = strings.TrimSpace(secret)
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, keyPrefix); ok {
		key = decoded(text)
	} else if !utf8.ValidString(secret) || strings.ContainsFunc(secret, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil
	}
	if len(key) < minKey {
		return nil
	}
	return key
}

// sign puts the signature into the header. Without a key there is none, but the time is
// told all the same.
func (s *Sender) sign(out *headerSet, r Request) *refusal {
	now := s.now()
	if r.Signature.Plain() && len(r.Keys) > 0 {
		return s.signPlain(out, r, strconv.FormatInt(now.Unix(), 10))
	}
	out.set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if len(r.Keys) == 0 {
		return nil
	}
	signature, refused := s.standardSignature(r, now)
	if refused == nil {
		out.set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return refused
}

// standardSignature is one signature for each live key, with a space between: a receiver
// takes the request if one of them fits its key, so that keys change without a gap.
func (s *Sender) standardSignature(r Request, now time.Time) (string, *refusal) {
	all := make([]string, len(r.Keys))
	for i, key := range r.Keys {
		w := s.signers.get(string(key), newSigner).webhook
		if w == nil {
			return "", invalid("the signing key cannot be used: %s", standardRule)
		}
		var err error
		if all[i], err = w.Sign(r.DeliveryID, now, r.Body); err != nil {
			return "", invalid("the signing key cannot be used")
		}
	}
	return strings.Join(all, " "), nil
}

// signPlain signs with the current key alone: the receivers of such a scheme look for
// one signature. webhook-timestamp is left out, for nothing would vouch for it.
func (s *Sender) signPlain(out *headerSet, r Request, seconds string) *refusal {
	secret := s.plainKeys.get(string(r.Keys[0]), plainKey)
	if secret == nil {
		return invalid("the signing key cannot be used: %s", plainRule)
	}
	mac := hmac.New(sha256.New, secret)
	if r.Signature.TimestampHeader != "" {
		mac.Write([]byte(seconds + "."))
		if refused := out.signed(r.Signature.TimestampHeader, seconds); refused != nil {
			return refused
		}
	}
	mac.Write(r.Body)
	return out.signed(r.Signature.Header, r.Signature.Prefix+hex.EncodeToString(mac.Sum(nil)))
}

// signed sets a header of a plain signature, which nothing else may have set.
func (s *headerSet) signed(name, value string) *refusal {
	key, why := work.HeaderKey(name)
	switch {
	case why != "":
		return invalid("the signature's header %q %s", name, why)
	case s.has(key):
		return invalid("header %q is set twice: it carries the signature of this destination's key", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return invalid("the signature's header %q has a prefix that cannot be sent", name)
	}
	s.set(key, value)
	return nil
}
