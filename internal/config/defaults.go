package config

import (
	"strconv"
	"time"

	"example.com/whctl/internal/policy"
)

// FinishedPolicy is the name under which an age given by hand sweeps where no policy is for
// deliveries that are finished for good. No policy of a configuration may have it.
const FinishedPolicy = "finished"

// DefaultBatch and DefaultKeep are those of a sweep without a policy: deliveries in a
// transaction, and how long what is finished is kept.
const (
	DefaultBatch = 1000
	DefaultKeep  = 30 * 24 * time.Hour
)

// Defaults that are not a policy's.
const (
	defaultStatementTimeout = 30 * time.Second
	defaultPayloadMax       = 256 << 10 // bytes; whctl.enqueue has the same
	defaultRedriveWindow    = 14 * 24 * time.Hour
	defaultLimit            = 1000
)

// defaults is the lowest layer, as texts like all others. Nothing is swept, redacted,
// guarded or reconciled by default.
func defaults() *layer {
	out := newLayer()
	set := func(value any, segments ...string) { out.set(join(segments...), value, origin{}) }
	set("", "database", "url")
	set(FormatDuration(defaultStatementTimeout), "database", "statement_timeout")
	set(FormatSize(defaultPayloadMax), "enqueue", "payload_max")
	set("true", "egress", "require_https")
	for _, list := range []string{"allow_hosts", "deny_hosts", "allow_cidrs", "deny_cidrs", "ports"} {
		set([]string{}, "egress", list)
	}
	set("", "egress", "ca_file")
	set(NoProxy, "egress", "proxy")
	set(FormatDuration(defaultRedriveWindow), "retention", "redrive_window")
	set([]string{}, "redact")

	p := policy.Default()
	of := func(value any, segments ...string) {
		set(value, append([]string{"policies", p.Name}, segments...)...)
	}
	of(strconv.Itoa(p.MaxAttempts), "max_attempts")
	of(FormatDuration(p.Timeout), "timeout")
	of(FormatDuration(p.Lease), "lease")
	of(FormatDuration(p.WriteMargin), "write_margin")
	of(string(p.Backoff.Kind), "backoff", "type")
	of(FormatDuration(p.Backoff.Base), "backoff", "base")
	of(FormatDuration(p.Backoff.Cap), "backoff", "cap")
	of(strconv.FormatFloat(p.Backoff.Jitter, 'g', -1, 64), "backoff", "jitter")
	of(FormatDuration(p.RetryAfterMax), "retry_after_max")
	of(p.RetryStatus.Words(), "retry_status")
	of(strconv.Itoa(p.MaxInFlight), "max_in_flight")
	of(p.Rate.String(), "rate")
	of(strconv.Itoa(p.Circuit.Failures), "circuit", "failures")
	of(FormatDuration(p.Circuit.OpenFor), "circuit", "open_for")
	of(FormatDuration(p.Circuit.OpenMax), "circuit", "open_max")
	of(string(p.Body), "body")
	of(strconv.Itoa(p.SuccessBodyMax), "success_body_max")
	return out
}
