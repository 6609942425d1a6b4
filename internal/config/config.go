package config

import (
	"net/netip"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/redact"
	"example.com/whctl/internal/work"
)

// Config is a configuration that has been checked.
type Config struct {
	File      string // the file that was read; "" for none
	Database  Database
	Policies  map[string]policy.Policy // by name; "default" is always there
	Enqueue   Enqueue
	Egress    Egress
	Keys      map[string]Key // signing keys by name
	Retention Retention
	Redact    redact.Rules      // what is not kept of answers
	Guards    map[string]string // SQL by event type: false cancels the delivery
	Reconcile map[string]Source // queries by name
	Operator  string            // from WHCTL_OPERATOR only; "" when unset

	settings []Setting
}

// Database says which database and how.
type Database struct {
	URL              string // may hold a password: print it through MaskURL only. "" leaves it to libpq's habits
	URLFile          string // the file that URL was read from; "" if it was none
	StatementTimeout time.Duration
}

// Enqueue bounds what may be put in.
type Enqueue struct {
	PayloadMax int64 // bytes
}

// Egress says which addresses may be reached.
type Egress struct {
	RequireHTTPS bool
	AllowHosts   []string       // lower-case exact names, or *.suffix; empty: every public host
	DenyHosts    []string       // the same; wins over AllowHosts
	AllowCIDRs   []netip.Prefix // inside addresses that may be reached after all
	DenyCIDRs    []netip.Prefix // wins over AllowCIDRs
	Ports        []int          // of public addresses; empty: 443, and 80 where http is admitted
	CAFile       string         // added to the system's roots
	Proxy        string         // none or a URL; may hold a password
}

// NoProxy is the value of Egress.Proxy that goes to receivers directly.
const NoProxy = "none"

// Key is a signing key: references to its values, and the scheme by which it signs.
// Previous still signs while receivers move to Current; it may be empty, and is where the
// scheme knows one signature only.
type Key struct {
	Current   work.Reference
	Previous  work.Reference
	Signature work.Signature
}

// Retention says what is kept and how long.
type Retention struct {
	RedriveWindow time.Duration // how long after its death a dead letter may be redriven
	Policies      map[string]RetentionPolicy
}

// RetentionPolicy is one kind of rows that a sweep removes.
type RetentionPolicy struct {
	Name        string
	Version     int
	Target      string       // TargetDeliveries or TargetAttempts
	States      []work.State // of deliveries; empty for attempts
	Keep        time.Duration
	Batch       int     // rows in one transaction
	MaxRows     int64   // at most so many in one sweep; 0: no bound
	MaxFraction float64 // at most this part of the rows in one sweep; 0: no bound
	ArchiveDir  string  // rows are written there before they go; "" for none
}

// What a retention policy removes.
const (
	TargetDeliveries = "deliveries"
	TargetAttempts   = "attempts"
)

// Source is a query that reconcile compares with what was enqueued.
type Source struct {
	Query string
	Limit int // rows enqueued in one run
}

// Setting is one effective value for people.
type Setting struct {
	Path   string // such as policies.default.timeout
	Value  string // as it was written; secrets masked
	Origin string // default, file F:LINE, environment NAME, flag --NAME; for inherited values also from whom
}

// Settings lists every effective value by path.
func (c *Config) Settings() []Setting { return append([]Setting(nil), c.settings...) }
