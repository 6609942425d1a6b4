package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// What cannot be meant is refused before the database is looked for: there is none here.
func TestDeliverRefusesWhatIsNotMeant(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"--limit 5", "--limit needs --once"},
		{"--max-time 50s", "--max-time needs --once"},
		{"--fail-on dead", "--fail-on needs --once"},
		{"--detailed-exitcode", "--detailed-exitcode needs --once"},
		{"--once --metrics-addr 127.0.0.1:0", "--metrics-addr is for a worker"},
		{"--metrics-addr 9464", `--metrics-addr "9464": want host:port`},
		{"--metrics-addr=", `--metrics-addr "": want host:port`},
		{"--metrics-addr :94640", `--metrics-addr ":94640": want a port number`},
		{"--metrics-file=", "--metrics-file"},
		{"--payload-memory 0", "--payload-memory"},
		{"--payload-memory lots", "no size"},
		{"--payload-memory -1", "no size"},
	} {
		a := call{env: map[string]string{"WHCTL_DATABASE_URL": "postgres://127.0.0.1:1/none"}, args: append([]string{"deliver"}, strings.Fields(c.args)...)}.run(t)
		if a.code != exitUsage || !strings.Contains(a.err, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, a.code, a.err)
		}
	}
}

// An address or a file that cannot be used is known before the database is reached for. It
// is a fault of the configuration, unless it comes right by itself.
func TestDeliverKnowsBeforehandWhereItsMetricsGo(t *testing.T) {
	l := testbed.Receiver(t, testbed.ReceiverOptions{Plain: true}) // its port is taken
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitFailed, []string{"deliver", "--metrics-addr", l.Address}},
		{exitFailed, []string{"deliver", "--metrics-addr", "192.0.2.1:0"}}, // RFC 5737: no machine has it
		{exitConfig, []string{"deliver", "--metrics-file", filepath.Join(t.TempDir(), "nosuch", "whctl.prom")}},
		{exitConfig, []string{"deliver", "--once", "--metrics-file", t.TempDir()}},
	} {
		a := call{env: map[string]string{"WHCTL_DATABASE_URL": "postgres://127.0.0.1:1/none"}, args: c.args}.run(t)
		if a.code != c.code || !strings.Contains(a.err, "metrics") || strings.Contains(a.err, "configuration") != (c.code == exitConfig) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, a.code, c.code, a.err)
		}
	}
	full := fmt.Errorf("%w: metrics file: %w", work.ErrConfig, &os.PathError{Op: "write", Path: "whctl.prom", Err: syscall.ENOSPC})
	if err := untold(full); exitCode(err) != exitFailed {
		t.Errorf("a full disk: exit %d: %v", exitCode(err), err)
	}
}

// Each run adds to what the file tells; one that fails keeps when the last one did not.
func TestDeliverKeepsMetricsInAFile(t *testing.T) {
	d := testbed.DB(t)
	name := filepath.Join(t.TempDir(), "whctl.prom")
	once := func(db *testbed.Database, code int) string {
		t.Helper()
		c := call{db: db, args: []string{"deliver", "--once", "--quiet", "--metrics-file", name}}
		if a := c.run(t); a.code != code {
			t.Fatalf("exit %d, want %d: %s", a.code, code, a.err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := once(d, exitOK)
	if !strings.Contains(first, "whctl_due_deliveries 0\n") || strings.Contains(first, "whctl_last_success_timestamp_seconds 0\n") {
		t.Errorf("after a run:\n%s", first)
	}
	success := func(text string) string {
		_, rest, _ := strings.Cut(text, "\nwhctl_last_success_timestamp_seconds ")
		at, _, _ := strings.Cut(rest, "\n")
		return at
	}
	testbed.Exec(t, d, `DROP SCHEMA whctl CASCADE`)
	if after := once(d, exitConfig); success(after) != success(first) || success(first) == "" {
		t.Errorf("the last success was at %q, and after a failure at %q", success(first), success(after))
	}
}

// Nothing was claimed, and yet something is due: the table says why, and is narrower where
// there is nothing to say.
func TestTheSummarySaysWhatIsHeldBack(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "a", "https://a.example/")
	once := func() string { return run(t, d, 0, "deliver", "--once").out }
	if got := once(); strings.Contains(got, "HELD BACK") {
		t.Errorf("nothing is held back:\n%s", got)
	}
	has(t, run(t, d, 0, "deliver", "--once", "-o", "wide").out, "HELD BACK")
	d.Enqueue(t, "a", "s", `{}`)
	run(t, d, 0, "destination", "pause", "a", "--reason", "why", "--operator", "ana")
	has(t, once(), "HELD BACK", "1 paused")
}

// How a worker ends: SIGTERM is how it is stopped, everything else is told.
func TestHowAWorkerEnds(t *testing.T) {
	for _, c := range []struct {
		once   bool
		begun  bool
		signal os.Signal
		err    error
		want   int
	}{
		{false, true, syscall.SIGTERM, signalled{syscall.SIGTERM}, 0},
		{false, false, syscall.SIGTERM, work.ErrUnreachable, 0},
		{false, true, syscall.SIGTERM, work.ErrUnreachable, exitTerminated},
		{false, true, syscall.SIGTERM, fmt.Errorf("connect: %w", context.Canceled), 0},
		{false, true, syscall.SIGTERM, errors.New("2 results could not be recorded"), exitTerminated},
		{false, true, syscall.SIGTERM, fmt.Errorf("%w: %w", work.ErrUnknown, context.Canceled), exitTerminated},
		{false, true, os.Interrupt, signalled{os.Interrupt}, exitInterrupted},
		{false, true, syscall.SIGHUP, signalled{syscall.SIGHUP}, exitHungUp},
		{true, true, syscall.SIGTERM, signalled{syscall.SIGTERM}, exitTerminated},
		{false, true, nil, work.ErrUnreachable, exitUnreachable},
		{false, true, nil, nil, exitOK},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if c.signal != nil {
			cancel(signalled{c.signal})
		}
		err := signalFirst(ctx, deliverOptions{once: c.once}.softly(ctx, c.err, c.begun))
		if got := exitCode(err); got != c.want {
			t.Errorf("%+v: exit %d", c, got)
		}
		cancel(nil)
	}
}

// The commands under deploy/ are understood as they stand, and are given more time to
// stop than their grace. A DSN that cannot be used ends them after their flags were read.
func TestTheDeployedWorkers(t *testing.T) {
	for file, stop := range map[string]string{
		"../../deploy/systemd/whctl-worker.service": `TimeoutStopSec=(\d+)\n`,
		"../../deploy/kubernetes/deployment.yaml":   `terminationGracePeriodSeconds: (\d+)\n`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		command := regexp.MustCompile(`ExecStart=/usr/local/bin/whctl (.*)|args: \[(.*)\]`).FindSubmatch(text)
		if command == nil {
			t.Fatalf("%s starts nothing", file)
		}
		args := strings.FieldsFunc(string(command[1])+string(command[2]), func(r rune) bool { return strings.ContainsRune(`, "`, r) })
		if a := (call{env: map[string]string{"WHCTL_DATABASE_URL": "nonsense"}, args: args}).run(t); a.code != exitConfig {
			t.Errorf("%s: whctl %v: exit %d: %s", file, args, a.code, a.err)
		}
		grace := regexp.MustCompile(`--grace,? (\d+)s`).FindSubmatch(text)
		limit := regexp.MustCompile(stop).FindSubmatch(text)
		if grace == nil || limit == nil {
			t.Fatalf("%s names no grace, or no limit", file)
		}
		g, _ := strconv.Atoi(string(grace[1]))
		l, _ := strconv.Atoi(string(limit[1]))
		if l < g+30 { // one wait for the database while it winds up, and some tries
			t.Errorf("%s: %d s to stop, with a grace of %d s", file, l, g)
		}
	}
}
