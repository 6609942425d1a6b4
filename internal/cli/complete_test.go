package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
)

// words are what completion offers for a command line whose last word is being typed.
func words(t *testing.T, c call, line ...string) string {
	t.Helper()
	c.args = append([]string{"__complete"}, line...)
	got := c.run(t)
	if got.code != 0 || strings.Contains(got.err, "whctl:") {
		t.Errorf("%v: exit %d, %q", line, got.code, got.err)
	}
	offered, directive, ok := strings.Cut(got.out, ":4\n") // no files
	if !ok || directive != "" {
		t.Errorf("%v: %q", line, got.out)
	}
	return strings.ReplaceAll(strings.TrimSuffix(offered, "\n"), "\n", " ")
}

func TestCompletion(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	d.Destination(t, "rest", "https://r.example/")
	one := testbed.QueryString(t, d, `SELECT delivery_id FROM whctl.enqueue('r', 'e', 's', '{}', delivery_id => 'del-8')`)
	c := call{db: d, env: map[string]string{"WHCTL_POLICIES__SLOW__TIMEOUT": "3s"}}
	for _, test := range []struct {
		want string
		line []string
	}{
		{"r rest", []string{"destination", "show", ""}},
		{"rest", []string{"destination", "remove", "re"}},
		{"", []string{"destination", "show", "r", ""}},
		{"r rest", []string{"destination", "test", ""}},
		{"r rest", []string{"dlq", "list", "--destination", ""}},
		{"r rest", []string{"deliver", "--once", "--destination", "r"}},
		{"del-7 del-8", []string{"show", "del-"}},
		{"del-7", []string{"show", one, "d"}},
		{"", []string{"show", "zzz"}},
		{"del-8", []string{"cancel", ""}},
		{"", []string{"cancel", "--reason", ""}},
		{"ok timeout dns connect tls reset protocol blocked blocked_name invalid redirect unauthorized rate_limited rejected unavailable lost", []string{"dlq", "list", "--class", ""}},
		{"table wide json jsonl csv name markdown", []string{"dlq", "list", "-o", ""}},
		{"", []string{"version", ""}},
		{"", []string{"dlq", "list", "--limit", ""}},
	} {
		if got := words(t, c, test.line...); got != test.want {
			t.Errorf("%v: %q, want %q", test.line, got, test.want)
		}
	}
}

// What cannot be had is not waited for, and not talked about.
func TestCompletionWithoutADatabase(t *testing.T) {
	refused := call{env: map[string]string{"WHCTL_DATABASE_URL": "postgres://127.0.0.1:1/x"}, completeWithin: 100 * time.Millisecond}
	wrong := call{env: map[string]string{"WHCTL_CONFIG": "/nosuch/whctl.yaml"}}
	for _, c := range []call{refused, wrong, {db: testbed.EmptyDB(t)}} {
		if got := words(t, c, "destination", "show", ""); got != "" {
			t.Errorf("%q", got)
		}
	}
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	link := testbed.Proxy(t, d.URL)
	link.Hold()
	silent := call{env: map[string]string{"WHCTL_DATABASE_URL": link.URL(d.URL)}, completeWithin: 100 * time.Millisecond}
	if got := words(t, silent, "destination", "show", ""); got != "" {
		t.Errorf("%q", got)
	}
}

// Even a call that does not end with its context is not waited for.
func TestCompletionIsBounded(t *testing.T) {
	d := testbed.DB(t)
	s, _, _, _ := console.Test()
	a := &app{io: s}
	a.global.databaseURL, a.global.schema = d.URL, "whctl"
	release := make(chan struct{})
	defer close(release)
	done := make(chan []string, 1)
	go func() {
		words, _ := a.fromStore(func(context.Context, *pgstore.Store) ([]string, error) {
			<-release
			return []string{"late"}, nil
		})
		done <- words
	}()
	if got := testbed.Await(t, "completion", done); got != nil {
		t.Errorf("%v", got)
	}
}
