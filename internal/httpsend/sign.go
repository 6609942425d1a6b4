package httpsend

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"example.com/whctl/internal/work"
)

// Key is the secret of a signing key: whsec_ and the key in base64. The specification's
// libraries read it without the prefix just as well, and so it is read here; the key is
// always what the base64 stands for, never its text. It does not print itself.
type Key string

const hidden = "[key]"

// ParseKey checks a secret before anything is signed with it. The error wraps
// work.ErrConfig and does not quote the secret.
func ParseKey(secret string) (Key, error) {
	if newSigner(secret).webhook == nil {
		return "", fmt.Errorf("%w: not a signing secret: want whsec_ and base64 (Standard Webhooks)", work.ErrConfig)
	}
	return Key(secret), nil
}

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
	secret = strings.TrimPrefix(strings.TrimSpace(secret), "whsec_")
	if key, err := base64.StdEncoding.DecodeString(secret); err != nil || len(key) == 0 {
		return signer{} // an empty key would sign what anybody can sign
	}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return signer{}
	}
	return signer{webhook: w}
}

// sign is one signature for each live key, with a space between: a receiver takes the
// request if one of them fits its key, so that keys change without a gap.
func (s *Sender) sign(r Request, now time.Time) (string, *refusal) {
	all := make([]string, len(r.Keys))
	for i, key := range r.Keys {
		w := s.signers.get(string(key), newSigner).webhook
		if w == nil {
			return "", invalid("the signing key is not whsec_ and base64")
		}
		var err error
		if all[i], err = w.Sign(r.DeliveryID, now, r.Body); err != nil {
			return "", invalid("the signing key cannot be used")
		}
	}
	return strings.Join(all, " "), nil
}
