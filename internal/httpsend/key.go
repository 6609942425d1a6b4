package httpsend

import (
	"fmt"

	"example.com/whctl/internal/work"
)

// ParseKey checks a secret before anything is signed with it. The error wraps
// work.ErrConfig and does not quote the secret.
func ParseKey(secret string) (Key, error) {
	if newSigner(secret).webhook == nil {
		return "", fmt.Errorf("%w: not a signing secret: want whsec_ and base64 (Standard Webhooks)", work.ErrConfig)
	}
	return Key(secret), nil
}
