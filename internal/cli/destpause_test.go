package cli

import (
	"regexp"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestDestinationPauseAndResume(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "a", "https://a.example/")
	d.Destination(t, "b", "https://b.example/")
	by := []string{"--reason", "INC-77\x1b[31m", "--operator", "ana"}
	act := func(code int, args ...string) answer {
		t.Helper()
		return run(t, d, code, append(append([]string{"destination"}, args...), by...)...)
	}
	got := act(0, "pause", "a", "b", "a", "-o", "json").out
	if want := `[{"name":"a","paused":true,"was_paused":false},` + "\n" + `{"name":"b","paused":true,"was_paused":false}]` + "\n"; got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	got = timeless(run(t, d, 0, "destination", "show", "a", "-o", "json").out)
	has(t, got, `"paused":true,"paused_reason":"INC-77`, `"paused_by":"ana","paused_at":"T","circuit":"closed"`)
	shown := run(t, d, 0, "destination", "show", "a").out
	has(t, shown, "by ana: INC-77")
	if strings.Contains(shown, "\x1b") {
		t.Errorf("an escape of the reason got through: %q", shown)
	}
	has(t, run(t, d, 0, "destination", "list").out, "paused")
	has(t, act(0, "pause", "a").out, "it already was")
	has(t, act(4, "pause", "nobody", "a").err, `destination "nobody": not found`)
	has(t, act(0, "resume", "a").out, "resumed")
	got = act(4, "resume", "a", "nobody", "-o", "json").out
	if want := `[{"name":"a","paused":false,"was_paused":false},` + "\n" + `{"name":"nobody","paused":null,"was_paused":false}]` + "\n"; got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	has(t, act(0, "resume", "a").out, "was not paused")
	if got := act(0, "resume", "b", "--quiet"); got.out+got.err != "" {
		t.Errorf("%+v", got)
	}
}

// What holds a destination back is told in words, and only while it does.
func TestDestinationShowsItsHealth(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "a", "https://a.example/")
	testbed.Exec(t, d, `UPDATE whctl.destination_health SET openings = 2, open_until = now() + interval '1 hour', held_until = now() + interval '1 hour'`)
	got := timeless(run(t, d, 0, "destination", "show", "a", "-o", "json").out)
	has(t, got, `"circuit":"open","open_until":"T","retry_after_until":"T"`)
	has(t, run(t, d, 0, "destination", "show", "a").out, "open until ", "Retry after:")
	has(t, run(t, d, 0, "destination", "list").out, "circuit open")
	testbed.Exec(t, d, `UPDATE whctl.destination_health SET open_until = now() - interval '1 hour', held_until = now() - interval '1 hour'`)
	got = timeless(run(t, d, 0, "destination", "list", "-o", "json").out)
	has(t, got, `"circuit":"half_open","open_until":"T","retry_after_until":null`)
}

// What holds deliveries back is told whatever it is, and limits that the policy has as the
// policy's.
func TestDestinationShowsWhatHoldsItBack(t *testing.T) {
	b := newBench(t, "policies: {default: {max_in_flight: 2}, slow: {extends: default, rate: 6/h}}\nkeys: {k: {current: {env: KEY}}}\n")
	for _, name := range []string{"a", "b"} {
		b.db.Destination(t, name, "https://"+name+".example/")
		b.db.Enqueue(t, name, "s", "{}")
	}
	testbed.Exec(t, b.db, `UPDATE whctl.destination_health h SET next_slot = now() + interval '9 minutes' FROM whctl.destinations x WHERE x.id = h.destination_id AND x.name = 'a'`)
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET policy = 'slow', max_in_flight = 9 WHERE name = 'a'`)
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET signing_key = 'k' WHERE name = 'b'`)
	shown := func(name string, lines ...string) {
		t.Helper()
		out := regexp.MustCompile(` +`).ReplaceAllString(b.run(0, "destination", "show", name).out, " ")
		has(t, timeless(out), lines...)
	}
	shown("a", "Max in flight: 9\n", "Rate: 6/h (policy slow)\n", "Held: rate until T (its rate of 6/h is used up)\n")
	shown("b", "Max in flight: 2 (policy default)\n", "Rate: unlimited (policy default)\n", "Body: envelope (policy default)\n",
		`Held: not ready here (key "k": environment variable KEY is not set; a worker may be)`+"\n")
	has(t, timeless(b.run(0, "destination", "show", "a", "-o", "json").out), `"not_ready_here":null`,
		`"effective_max_in_flight":9,"effective_rate":"6/h","held":[{"reason":"rate","until":"T","why":"its rate of 6/h is used up"}]`)
	list := regexp.MustCompile(` +`).ReplaceAllString(b.run(0, "destination", "list").out, " ")
	has(t, list, "a https://a.example/ slow - 9 - rate", "b https://b.example/ default k - - not ready here")

	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET signing_key = '', max_in_flight = 1 WHERE name = 'b'`)
	b.db.Enqueue(t, "b", "other", "{}")
	testbed.Exec(t, b.db, `UPDATE whctl.deliveries SET attempt_id = gen_random_uuid(), lease_owner = 'w#1', attempts = 1, started_at = now(), lease_expires_at = now() + interval '1 hour'
		WHERE id = (SELECT max(id) FROM whctl.deliveries)`)
	shown("b", "Held: in_flight (as many are in flight as may be)\n")
	testbed.Exec(t, b.db, `UPDATE whctl.destinations SET policy = 'gone', max_in_flight = NULL WHERE name = 'b'`)
	shown("b", "Max in flight: -\n", `Held: not ready here (policy "gone" is not configured; a worker may be)`+"\n")
}

func TestDestinationPauseWantsAReasonAndAnOperatorBeforeItConnects(t *testing.T) {
	for _, verb := range []string{"pause", "resume"} {
		for _, args := range [][]string{
			{"x", "--operator", "ana"},
			{"x", "--operator", "ana", "--reason", " \t"},
			{"x", "--operator", "ana", "--reason", "\xff"},
			{"x", "--operator", "\xff", "--reason", "why"},
			{"x", "--reason", "why"},
			{"x", "--reason", "why", "--operator", " "},
			{"a b", "--reason", "why", "--operator", "ana"},
			{"--reason", "why", "--operator", "ana"},
		} {
			args = append([]string{"destination", verb, "--database-url", "postgres://127.0.0.1:1/x"}, args...)
			if got := (call{args: args}).run(t); got.code != exitUsage || got.out != "" {
				t.Errorf("%q: exit %d, %q", args, got.code, got.err)
			}
		}
	}
}

func TestDestinationPauseTakesTheOperatorFromTheEnvironment(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "a", "https://a.example/")
	got := call{db: d, env: map[string]string{"WHCTL_OPERATOR": "eve"}, args: []string{"destination", "pause", "a", "--reason", "why"}}.run(t)
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := testbed.QueryString(t, d, `SELECT operator || ' ' || action || ' ' || reason || ' ' || destination FROM whctl.audit_log`); got != "eve pause why a" {
		t.Errorf("on record: %s", got)
	}
}
