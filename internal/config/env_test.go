package config_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/work"
)

func TestEnvironment(t *testing.T) {
	w := file("policies: {five-minutes: {}, Nightly.v2: {}}\nguards: {reservation.expired: select true}")
	w.env = map[string]string{
		"WHCTL_POLICIES__FIVE_MINUTES__MAX_ATTEMPTS":      "3",
		"WHCTL_POLICIES__FIVE-MINUTES__BACKOFF__TYPE":     "schedule",
		"WHCTL_POLICIES__five-minutes__timeout":           "3s",
		"WHCTL_POLICIES__FIVE_MINUTES__RETRY_STATUS":      "409, 5xx",
		"WHCTL_POLICIES__FIVE_MINUTES__BACKOFF__SCHEDULE": "1m,5m",
		"WHCTL_POLICIES__NIGHTLY_V2__BODY":                "raw",
		"WHCTL_POLICIES__NEW-ONE__EXTENDS":                "five-minutes",
		"WHCTL_GUARDS__RESERVATION_EXPIRED":               "select false",
		"WHCTL_KEYS__A__CURRENT__ENV":                     "WHCTL_SIGNING_A",
		"WHCTL_SIGNING_A":                                 "s3cret",
		"WHCTL_EGRESS__ALLOW_HOSTS":                       "",
		"WHCTL_ENQUEUE__PAYLOAD_MAX":                      "16MiB",
		"WHCTL_PG_BIN":                                    "/usr/lib/postgresql/15/bin",
		"OTHER__THING":                                    "x",
	}
	c := w.load(t)
	five := c.Policies["five-minutes"]
	if five.MaxAttempts != 3 || five.Timeout != 3*time.Second || five.RetryStatus.String() != "409, 5xx" ||
		!slices.Equal(five.Backoff.Schedule, []time.Duration{time.Minute, 5 * time.Minute}) {
		t.Errorf("%+v", five)
	}
	if c.Policies["new-one"].MaxAttempts != 3 || c.Policies["Nightly.v2"].Body != work.BodyRaw || len(c.Policies) != 4 {
		t.Errorf("%v", slices.Sorted(maps.Keys(c.Policies)))
	}
	if c.Guards["reservation.expired"] != "select false" || c.Keys["a"].Current.Env != "WHCTL_SIGNING_A" || c.Enqueue.PayloadMax != 16<<20 {
		t.Errorf("%+v", c)
	}
}

func TestWrongVariables(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"no setting", map[string]string{"WHCTL_PAGER": "less"}, []string{"environment WHCTL_PAGER: no such setting (nearest known: WHCTL_"}},
		{"misspelt", map[string]string{"WHCTL_DATABSE_URL": "postgres://u:hunter2@h/"}, []string{"environment WHCTL_DATABSE_URL: no such setting (nearest known: WHCTL_DATABASE_URL)"}},
		{"one underscore", map[string]string{"WHCTL_ENQUEUE_PAYLOAD_MAX": "1"}, []string{"nearest known: WHCTL_ENQUEUE__PAYLOAD_MAX"}},
		{"in a policy", map[string]string{"WHCTL_POLICIES__DEFAULT__MAX_ATEMPTS": "1"}, []string{"nearest known: WHCTL_POLICIES__DEFAULT__MAX_ATTEMPTS"}},
		{"a group", map[string]string{"WHCTL_DATABASE": "x"}, []string{"nearest known: WHCTL_DATABASE_URL"}},
		{"nothing behind", map[string]string{"WHCTL_": "x"}, []string{"environment WHCTL_: no such setting"}},
		{"no name", map[string]string{"WHCTL_POLICIES____TIMEOUT": "1s"}, []string{"no such setting (nearest known: WHCTL_POLICIES__"}},
		{
			"no such policy",
			map[string]string{"WHCTL_POLICIES__DEFUALT__MAX_ATTEMPTS": "1"},
			[]string{`environment WHCTL_POLICIES__DEFUALT__MAX_ATTEMPTS: policies.defualt.max_attempts: there is no policy "defualt" (nearest: default; a new one needs its extends set too)`},
		},
		{"half a retention policy", map[string]string{"WHCTL_RETENTION__X__KEEP": "9d"}, []string{
			"environment WHCTL_RETENTION__X__KEEP: retention.x.states: is missing", "environment WHCTL_RETENTION__X__KEEP: retention.x.version: is missing",
		}},
		{
			"bad value",
			map[string]string{"WHCTL_POLICIES__DEFAULT__MAX_ATTEMPTS": "many"},
			[]string{`environment WHCTL_POLICIES__DEFAULT__MAX_ATTEMPTS: policies.default.max_attempts: "many" is no whole number from 1 to 1000`},
		},
		{
			"twice",
			map[string]string{"WHCTL_DATABASE_URL": "postgres://a/", "WHCTL_DATABASE__URL": "postgres://b/"},
			[]string{"environment WHCTL_DATABASE__URL: database.url: also set by environment WHCTL_DATABASE_URL (unset one of them)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(world{env: tt.env}.options())
			wantProblems(t, err, tt.want...)
		})
	}
}

// A Service named whctl puts these into every pod of its namespace.
func TestServiceLinksAreNotOurs(t *testing.T) {
	w := world{env: map[string]string{
		"WHCTL_SERVICE_HOST": "10.0.0.1", "WHCTL_SERVICE_PORT": "80", "WHCTL_SERVICE_PORT_METRICS": "80", "WHCTL_PORT": "tcp://10.0.0.1:80",
		"WHCTL_PORT_80_TCP": "tcp://10.0.0.1:80", "WHCTL_PORT_80_TCP_PROTO": "tcp", "WHCTL_PORT_80_TCP_PORT": "80", "WHCTL_PORT_80_TCP_ADDR": "10.0.0.1",
		"WHCTL_METRICS_SERVICE_HOST": "10.0.0.1", "WHCTL_METRICS_PORT_9090_TCP_ADDR": "10.0.0.1",
	}}
	w.load(t)
}

func TestWrongFlag(t *testing.T) {
	_, err := config.Load(world{flags: map[string]string{"databse.url": "postgres://u:hunter2@h/", "egress": "x", "enqueue.payload_max": "lots"}}.options())
	wantProblems(t, err,
		"flag --databse-url: databse.url: no such key",
		"flag --egress: egress: no such key",
		`flag --enqueue-payload-max: enqueue.payload_max: "lots" is no size`)
}
