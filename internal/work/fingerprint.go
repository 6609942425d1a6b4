package work

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// variable is what differs between two answers that mean the same: ids, hashes,
// numbers, times.
//
// It is compiled at its first use: most commands never need it.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{16,}\b|\d+`)
})

// Fingerprint groups outcomes that mean the same: class, status and the text with
// its variable parts and blanks levelled. It is 16 hexadecimal digits.
func Fingerprint(o Outcome) string {
	text := o.Excerpt
	if text == "" {
		text = o.Message
	}
	text = variable().ReplaceAllString(strings.ToLower(text), "#")
	text = strings.Join(strings.Fields(text), " ")
	sum := sha256.Sum256([]byte(string(o.Class) + "\n" + strconv.Itoa(o.Status) + "\n" + text))
	return hex.EncodeToString(sum[:8])
}
