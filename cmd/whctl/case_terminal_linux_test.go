package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// ownColours are the sequences with which whctl itself colours a terminal.
var ownColours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// H58: hostile text in tables. What a receiver answered, and what a producer called its
// tenant, reaches no terminal and no pipe as it came: it is shown as marks.
func TestH58HostileTextInTables(t *testing.T) {
	const hostile = "\x1b]52;c;ZXZpbA==\a\x1b[2J\x1b]8;;https://x\x1b\\\rOK delivered\b\b\b\x7f\u009b31m\u202e"
	b := newBench(t)
	defer b.check()
	b.receiver("r", func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, hostile)
	})
	var id string
	err := b.db.Admin.GetContext(t.Context(), &id, `SELECT delivery_id FROM whctl.enqueue('r', $1, $1, '{}', tenant => $1, event_version => $1, event_id => $1)`, hostile)
	if err != nil {
		t.Fatal(err)
	}
	b.once()
	if got := testbed.QueryString(t, b.db, `SELECT excerpt FROM whctl.attempts`); strings.ContainsAny(got, "\x1b\r\b\a\x7f") || !strings.Contains(got, "OK delivered") {
		t.Errorf("the database has %q", got)
	}
	// An answer that was stored by other hands, or before it was cleaned.
	testbed.Plant(t, b.db, `UPDATE whctl.attempts SET excerpt = $1, message = $1, worker = $1`, hostile)
	testbed.Plant(t, b.db, `INSERT INTO whctl.audit_log (operator, action, reason, delivery_id) VALUES ($1, $1, $1, $2)`, hostile, id)

	formats := []string{"table", "wide", "json", "jsonl", "csv", "markdown", "name"}
	for _, command := range [][]string{{"dlq", "list"}, {"show", id}} {
		for _, format := range formats {
			args := append(command, "-o", format)
			piped := b.must(0, args...)
			drawn, code := testbed.RunOnTerminal(t, b.cmd(args...), 4000)
			if code != 0 {
				t.Errorf("%v on a terminal: exit %d: %s", args, code, drawn)
			}
			for where, text := range map[string]string{"pipe": piped.Stdout + piped.Stderr, "terminal": ownColours.ReplaceAllString(drawn, "")} {
				wantHarmless(t, strings.Join(args, " ")+" "+where, text)
				want := `\x1b]52;c;ZXZpbA==\x07\x1b[2J`
				switch format {
				case "name":
					want = id
				case "json", "jsonl":
					want = `\u001b]52;c;ZXZpbA==\u0007\u001b[2J`
				case "markdown":
					want = `\\x1b\]52;c;ZXZpbA==\\x07\\x1b\[2J`
				}
				if !strings.Contains(text, want) {
					t.Errorf("%v %s: the text is not visible:\n%s", args, where, text)
				}
			}
		}
	}
}

// wantHarmless fails for every byte that a terminal obeys.
func wantHarmless(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f || r == '\u202e' {
			t.Errorf("%s: %U in …%q…", what, r, text[max(0, i-40):min(len(text), i+40)])
			return
		}
	}
}
