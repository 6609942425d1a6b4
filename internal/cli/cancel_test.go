package cli

import (
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestCancel(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	one, two := d.Enqueue(t, "r", "E-1", `{}`), d.Enqueue(t, "r", "E-2", `{}`)
	got := run(t, d, 0, "cancel", one, "--reason", "withdrawn", "-o", "json").out
	if want := `[{"delivery_id":"` + one + `","cancelled":true,"state":"cancelled"}]` + "\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	refused := run(t, d, 3, "cancel", one, "del-7", "nobody", two, "--reason", "withdrawn")
	has(t, refused.err, "delivery "+one+" is cancelled, not scheduled", "delivery del-7 is leased, not scheduled", "delivery nobody: not found")
	has(t, refused.out, "refused: leased", "not found", "cancelled")
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.audit_log`); n != 2 {
		t.Errorf("%d acts on record, want one for each that was cancelled", n)
	}
	has(t, run(t, d, 4, "cancel", "nobody", "--reason", "x").err, "not found")
	if got := run(t, d, 0, "cancel", d.Enqueue(t, "r", "E-3", `{}`), "--reason", "x", "--quiet"); got.out+got.err != "" {
		t.Errorf("%+v", got)
	}
	testbed.Check(t, d)
}

func TestCancelPutsTheOperatorOnRecord(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	for _, c := range []struct {
		env, flag, want string
	}{{"", "", "app"}, {"eve", "", "eve"}, {"eve", "ana", "ana"}, {" ", "", "app"}} {
		id := d.Enqueue(t, "r", "E-"+c.env+c.flag+c.want, `{}`)
		args := []string{"cancel", id, "--reason", "why"}
		if c.flag != "" {
			args = append(args, "--operator", c.flag)
		}
		if got := (call{db: d, env: map[string]string{"WHCTL_OPERATOR": c.env}, args: args}).run(t); got.code != 0 {
			t.Fatalf("%+v: %+v", c, got)
		}
		if got := testbed.QueryString(t, d, `SELECT operator FROM whctl.audit_log WHERE delivery_id = $1`, id); got != c.want {
			t.Errorf("%+v: operator %q", c, got)
		}
	}
}

func TestCancelWantsAReasonBeforeItConnects(t *testing.T) {
	for _, args := range [][]string{
		{"x"},
		{"x", "--reason", ""},
		{"x", "--reason", " \t"},
		{"x", "--reason", "\xff"},
		{"x", "--reason", "why", "--operator", " "},
		{"a b", "--reason", "why"},
		{strings.Repeat("x", 129), "--reason", "why"},
		{"--reason", "why"},
	} {
		got := call{args: append([]string{"cancel", "--database-url", "postgres://127.0.0.1:1/x"}, args...)}.run(t)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%q: exit %d, %q", args, got.code, got.err)
		}
	}
}

// A binary that is older than the schema touches nothing, and says which is which.
func TestCommandsRefuseANewerSchema(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	id := d.Enqueue(t, "r", "E-1", `{}`)
	testbed.Exec(t, d, `INSERT INTO whctl.schema_version (version) VALUES (2)`)
	file := bench{T: t}.file("destinations: [{name: a, url: 'https://a.example'}]")
	for _, line := range []string{
		"cancel " + id + " --reason x", "show " + id, "dlq list", "destination list", "destination show r", "destination remove r", "destination apply -f " + file,
	} {
		got := call{db: d, args: strings.Fields(line)}.run(t)
		if got.code != exitConfig || got.out != "" || !strings.Contains(got.err, "newer than this binary") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if n := testbed.QueryInt(t, d, `SELECT count(*) FROM whctl.destinations WHERE name = 'r'`); n != 1 {
		t.Error("a destination was removed")
	}
	if got := testbed.QueryString(t, d, `SELECT state FROM whctl.delivery_status`); got != "scheduled" {
		t.Errorf("the delivery is %s", got)
	}
	run(t, d, 0, "version")
}

// A producer may cancel but not look: "not found" would say more than is known.
func TestCancelByWhoMayNotLook(t *testing.T) {
	d := testbed.DB(t)
	leased(t, d)
	_, url := d.Login(t, "whctl_producer")
	producer := &testbed.Database{URL: url, Admin: d.Admin}
	got := run(t, producer, 3, "cancel", "del-7", "--reason", "x")
	has(t, got.out, "refused")
	has(t, got.err, "the role may not look")
	if strings.Contains(got.out, "not found") {
		t.Errorf("%s", got.out)
	}
}
