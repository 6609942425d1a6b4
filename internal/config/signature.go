package config

import (
	"fmt"
	"strings"

	"example.com/whctl/internal/work"
)

// signature reads how a key signs. What only a plain signature knows was meant to act,
// and is refused where the type has no use for it.
func (l *loader) signature(m *layer, group string) work.Signature {
	preset(m, group, "type", string(work.StandardWebhooks))
	s := work.Signature{Type: read(l, m, join(group, "type"), signatureType)}
	switch {
	case s.Type == "": // a problem of its own
	case s.Plain():
		l.require(m, group, "header")
		s.Header = read(l, m, join(group, "header"), headerName)
		s.TimestampHeader = read(l, m, join(group, "timestamp_header"), headerName)
		s.Prefix = read(l, m, join(group, "prefix"), headerPrefix)
		if names := s.Headers(); len(names) == 2 && names[0] == names[1] {
			path := join(group, "timestamp_header")
			l.problems.add(m.origins[path], path, "is the header of the signature too (want another one)")
		}
	default:
		for _, key := range []string{"header", "timestamp_header", "prefix"} {
			if from, set := m.origins[join(group, key)]; set {
				l.problems.add(from, join(group, key), "has no use with type %s (take it out, or set type: %s)", s.Type, work.HMACSHA256Hex)
			}
		}
	}
	return s
}

// oneSignature refuses a previous key beside a scheme whose receivers look for one
// signature: it would never sign.
func (l *loader) oneSignature(m *layer, k Key, previous string) {
	if k.Signature.Plain() {
		l.problems.add(l.place(m, previous), previous, "has no use with signature type %s: its receivers know one signature, so current signs alone (take it out)", k.Signature.Type)
	}
}

func signatureType(s string) (work.SignatureType, error) {
	var known []string
	for _, t := range work.SignatureTypes() {
		if string(t) == s {
			return t, nil
		}
		known = append(known, string(t))
	}
	return "", fmt.Errorf("%q is no type of signature (want %s)", s, strings.Join(known, " or "))
}

// headerName is for a header that a signature sets. Content-Type is taken.
func headerName(s string) (string, error) {
	key, why := work.HeaderKey(s)
	if why == "" && key == "Content-Type" {
		why = "says what the body is"
	}
	if why != "" {
		return "", fmt.Errorf("%q %s (want the name of a header that the receiver looks for, such as X-Signature)", s, why)
	}
	return s, nil
}

// maxPrefix bounds what stands before a signature, in bytes.
const maxPrefix = 64

// headerPrefix does not quote what it refuses: it may be a secret. A blank at its
// beginning would be lost on the way.
func headerPrefix(s string) (string, error) {
	if len(s) > maxPrefix || strings.HasPrefix(s, " ") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("cannot stand before a signature (want at most %d visible ASCII characters, such as sha256=)", maxPrefix)
	}
	return s, nil
}
