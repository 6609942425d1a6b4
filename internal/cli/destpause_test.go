package cli

import (
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
