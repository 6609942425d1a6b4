package config

import (
	"net/url"
	"regexp"
	"strings"
)

// masked stands for a secret.
const masked = "*****"

// MaskURL is an address that may be printed: the password and secret-looking query
// values of a URL, or of a libpq string of key=value pairs, are masked. What it cannot
// take apart it masks whole, and rather masks too much: a password that should have been
// escaped may hold any sign.
func MaskURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case ok && !strings.ContainsAny(scheme, "= '"):
		return scheme + "://" + maskLocation(rest, strings.HasPrefix(scheme, "postgres"))
	case strings.TrimSpace(s) == "" || s == NoProxy:
		return s
	}
	return maskPairs(s)
}

// maskLocation is for what follows the scheme. Only a database's user is worth showing:
// elsewhere a name before the @ may be a token.
func maskLocation(rest string, showUser bool) string {
	fragment := ""
	if i := strings.LastIndex(rest, "#"); i >= 0 && !strings.Contains(rest[i:], "@") {
		rest, fragment = rest[:i], "#"+masked
	}
	head, query, asked := strings.Cut(rest, "?")
	colon, at := strings.Index(head, ":"), strings.LastIndex(head, "@")
	switch {
	// The question mark may be part of a password.
	case strings.Contains(query, "@") && !showUser:
		head = masked
	case strings.Contains(query, "@") && colon >= 0:
		head = head[:colon+1] + masked
	case at >= 0 && !showUser:
		head = masked + head[at:]
	case colon >= 0 && colon < at:
		head = head[:colon+1] + masked + head[at:]
	}
	if asked {
		head += "?" + maskQuery(query)
	}
	return head + fragment
}

func maskQuery(query string) string {
	pairs := strings.Split(query, "&")
	suspect := strings.Contains(query, "@") // up to there it may all be password
	for i, pair := range pairs {
		key, _, ok := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(key)
		switch {
		case suspect:
			pairs[i] = masked
			suspect = strings.Contains(strings.Join(pairs[i+1:], "&"), "@")
		case !ok || err != nil || strings.ContainsAny(key, "@:/?#"):
			pairs[i] = masked
		case secretName.MatchString(plain):
			pairs[i] = key + "=" + masked
		}
	}
	return strings.Join(pairs, "&")
}

var (
	secretName = regexp.MustCompile(`(?i)password|passwd|passphrase|pwd|secret|token|credential|signature|api_?key|^(pass|auth|key|sig)$`)
	// A pair of libpq: a value in quotes, with \' and \\ inside, or one whose blanks are
	// escaped.
	pair = regexp.MustCompile(`^\s*([A-Za-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(\s+|$)`)
)

func maskPairs(s string) string {
	var out []string
	for s != "" {
		m := pair.FindStringSubmatch(s)
		if m == nil {
			return masked
		}
		if s = s[len(m[0]):]; secretName.MatchString(m[1]) {
			m[2] = masked
		}
		out = append(out, m[1]+"="+m[2])
	}
	return strings.Join(out, " ")
}
