package config_test

import (
	"testing"
	"time"

	"example.com/whctl/internal/config"
)

func TestPolicies(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{
			"lease shorter than a request", "policies:\n  default:\n    lease: 2s\n    timeout: 5s\n",
			[]string{"whctl.yaml:3: policies.default.lease: 2s does not exceed timeout 5s + write_margin 2s (a lease must cover one request and the write after it)"},
		},
		{
			"time-out too long for the lease it inherits", "policies:\n  slow:\n    timeout: 100s\n",
			[]string{"whctl.yaml:3: policies.slow.lease: 1m0s does not exceed timeout 1m40s + write_margin 2s"},
		},
		{
			"two values that do not go together come from elsewhere",
			"policies:\n  a: {timeout: 50s}\n  b:\n    extends: a\n    write_margin: 20s\n",
			[]string{"whctl.yaml:5: policies.b.lease: 1m0s does not exceed timeout 50s + write_margin 20s"},
		},
		{
			"told once, where it was written", "policies:\n  default: {max_in_flight: 0, timeout: 0s}\n  a: {}\n  b: {extends: a}",
			[]string{`whctl.yaml:2: policies.default.max_in_flight: "0" is no whole number from 1 to 10000`},
		},
		{"told once, from Validate", "policies:\n  default: {timeout: 0s}\n  a: {}\n  b: {extends: a}", []string{"whctl.yaml:2: policies.default.timeout: 0s is out of bounds"}},
		{"circle", "policies:\n  a: {extends: b}\n  b: {extends: c}\n  c: {extends: a}", []string{"whctl.yaml:4: policies.c.extends: extends itself: a → b → c → a (let one of them extend default)"}},
		{"of itself", "policies: {a: {extends: a}}", []string{"policies.a.extends: extends itself: a → a"}},
		{"default extends", "policies: {default: {extends: a}, a: {}}", []string{"policies.default.extends: this policy is what all others extend (take it out)"}},
		{"unknown parent", "policies: {a: {extends: defualt}}", []string{`policies.a.extends: there is no policy "defualt" (nearest: default)`}},
		{"delay without its type", "policies:\n  default: {backoff: {delay: 5m}}", []string{"policies.default.backoff.delay: has no use with type exponential (take it out, or set type: fixed)"}},
		{"base with another type", "policies: {a: {backoff: {type: schedule, schedule: [1m], base: 1s}}}", []string{"policies.a.backoff.base: has no use with type schedule (take it out, or set type: exponential)"}},
		{"no delay", "policies: {a: {backoff: {type: fixed}}}", []string{"policies.a.backoff.delay: 0s is out of bounds"}},
		{"odd type", "policies: {a: {backoff: {type: lunar}}}", []string{`policies.a.backoff.type: "lunar" is no kind of backoff (want exponential, fixed or schedule)`}},
		{
			"every bad value", "policies:\n  a:\n    timeout: 10\n    max_attempts: 8.0\n    rate: 50\n    retry_status: [2xx, 503, 999]\n    backoff: {jitter: much}\n    success_body_max: -1\n    body: json\n    circuit: {failures: none}",
			[]string{
				`3: policies.a.timeout: "10" is no duration`, `4: policies.a.max_attempts: "8.0" is no whole number`, `5: policies.a.rate: "50" is no rate`,
				`6: policies.a.retry_status: "2xx" is no status`, `6: policies.a.retry_status: "999" is no status`, `7: policies.a.backoff.jitter: "much" is no number`,
				`8: policies.a.success_body_max: "-1" is no size`, `10: policies.a.circuit.failures: "none" is no whole number`,
			},
		},
		{"body", "policies: {a: {body: json}}", []string{`policies.a.body: "json" is no kind of body (want envelope or raw)`}},
		{"minutes are fine here", "policies: {a: {backoff: {cap: 6m}, circuit: {open_max: 90m}}}", nil},
		{"circuit off", "policies: {a: {circuit: {failures: 0}}}", nil},
		{"cap below the base", "policies:\n  a:\n    backoff:\n      base: 20m", []string{"whctl.yaml:4: policies.a.backoff.cap: 15m0s is less than base 20m0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(file(tt.yaml).options())
			wantProblems(t, err, tt.want...)
		})
	}
}

func TestExtends(t *testing.T) {
	w := file(`policies:
  c: {extends: b, rate: unlimited}
  b: {extends: a, timeout: 4s}
  a: {max_attempts: 3, rate: 10/h, retry_status: [503]}
  default: {max_in_flight: 2, backoff: {type: fixed, delay: 9s}}
  e: {backoff: {type: exponential}}
`)
	w.env = map[string]string{"WHCTL_POLICIES__A__MAX_ATTEMPTS": "4", "WHCTL_POLICIES__DEFAULT__BACKOFF__TYPE": "exponential"}
	c := w.load(t)
	got := c.Policies["c"]
	if got.MaxAttempts != 4 || got.Timeout != 4*time.Second || got.Rate.String() != "unlimited" || got.RetryStatus.String() != "503" || got.MaxInFlight != 2 || got.Name != "c" {
		t.Errorf("%+v", got)
	}
	if b := c.Policies["e"].Backoff; b.Base != time.Second || b.Cap != 15*time.Minute {
		t.Errorf("%+v", b)
	}
	if c.Policies["b"].Rate.String() != "10/h" {
		t.Errorf("%+v", c.Policies["b"])
	}
}
