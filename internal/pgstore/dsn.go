package pgstore

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/lib/pq"

	"example.com/whctl/internal/work"
)

var multiPort = regexp.MustCompile(`:\d+,`)

// driverConfig is the driver's configuration for dsn, with sslmode prefer, as psql has it,
// where nothing else is said.
func driverConfig(dsn string) (pq.Config, error) {
	if isURL(dsn) && multiPort.MatchString(dsn) {
		// The driver would take "a:5432,b" for a host name.
		return pq.Config{}, fmt.Errorf("%w: database.url: several hosts with ports are written postgres://a,b/db?port=5432,5433", work.ErrConfig)
	}
	cfg, err := pq.NewConfig(dsn)
	if err != nil || isURL(dsn) && strayPassword(dsn) {
		return cfg, fmt.Errorf("%w: database: %s", work.ErrConfig, dsnFault(dsn, err))
	}
	if cfg.SSLMode == "" {
		cfg.SSLMode = pq.SSLModePrefer
	}
	if !strings.Contains(dsn, "binary_parameters") {
		// One round trip a statement, and right behind a transaction pooler, where
		// two round trips may meet two servers.
		cfg.BinaryParameters = true
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.ApplicationName == "" {
		cfg.ApplicationName = "whctl"
	}
	return cfg, nil
}

// isURL tells the two forms apart as the driver does.
func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// strayPassword says that a URL holds an @ where none belongs: a / ? or # in a password
// that was not written as %XX ends the host early, and what is before it would be taken
// for a port and shown as one.
func strayPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return true
	}
	for key := range u.Query() {
		if strings.Contains(key, "@") {
			return true
		}
	}
	return u.Fragment != "" || u.User == nil && strings.Contains(u.Path, "@")
}

// sayable are the driver's faults that quote nothing but names of its own settings.
var sayable = regexp.MustCompile(`^pq: (?:wrong value for "?(\$?[A-Za-z_]+)|(environment variable \$[A-Z]+ is not supported|could not match \d+ .*|weak sslmode .*))`)

// dsnFault says what is wrong with a DSN without quoting any of it: what the driver took
// for a key or a port may be part of a password.
func dsnFault(dsn string, err error) string {
	if err != nil {
		if m := sayable.FindStringSubmatch(err.Error()); m != nil {
			if m[1] != "" {
				return "the value of " + m[1] + " cannot be used"
			}
			return m[2]
		}
	}
	if isURL(dsn) {
		return "not a usable URL; in a user name or password write each of / ? # @ : % and blank as its %XX"
	}
	return "not usable as key=value pairs; a value with blanks or quotes stands in single quotes: password='two words'"
}

// startFault keeps a server or pooler that refuses a setting from quoting it: an unknown
// key is handed to the server as a setting, and may be part of a password, too.
func startFault(cfg pq.Config, err error) error {
	if len(cfg.Runtime) > 0 && pq.As(err, "42704", "42602", "22023", "08P01", "55P02") != nil {
		return fmt.Errorf("%w: the server refuses a setting; the driver takes each key that it does not know for one", work.ErrConfig)
	}
	return err
}

var hostKey = regexp.MustCompile(`(^|[\s?&])host(addr)?\s*=`)

// hostGiven says whether the DSN or the environment names a host.
func hostGiven(dsn string) bool {
	if os.Getenv("PGHOST") != "" || os.Getenv("PGHOSTADDR") != "" || hostKey.MatchString(dsn) {
		return true
	}
	_, rest, isURL := strings.Cut(dsn, "://")
	if !isURL {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	return authority[strings.LastIndex(authority, "@")+1:] != ""
}

// redacted is err with the password taken out of its text.
func redacted(err error, password string) error {
	if password == "" || !strings.Contains(err.Error(), password) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), password, "…"))
}
