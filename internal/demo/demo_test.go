package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/testbed"
)

const lastLine = "\n11 delivered, 1 dead, no state change applied twice, every attempt accounted for\n"

// watch starts the demo in a folder for temporary files of its own, and checks at the end
// that nothing is left: no file, no process.
func watch(t *testing.T, args ...string) *testbed.Process {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { nothingLeft(t, dir) })
	// Settings of the caller must not reach the story.
	env := []string{"TMPDIR=" + dir, "WHCTL_DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "WHCTL_POLICIES__DEFAULT__TIMEOUT=9s", "PGSERVICE=none"}
	return testbed.Start(t, testbed.Cmd{Args: append([]string{"demo"}, args...), Env: env})
}

// reach waits for chapter after chapter, each within the time that one wait may take.
func reach(p *testbed.Process, chapter int) {
	for n := range chapter {
		p.WaitStdout(fmt.Sprintf("\n%d. ", n+1))
	}
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: %s", e.Name())
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range commands {
		line, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(line), dir) {
			t.Errorf("still running: %s", strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}

func TestStory(t *testing.T) {
	t.Parallel()
	p := watch(t)
	<-p.Done() // as long as the test may last
	r := p.Wait()
	if r.Code != 0 || r.Stderr != "" || !strings.HasSuffix(r.Stdout, lastLine) {
		t.Fatalf("exit %d, stderr %q, stdout:\n%s", r.Code, r.Stderr, r.Stdout)
	}
	t.Log(r.Stdout)
	if strings.ContainsAny(r.Stdout, "\x1b\r") {
		t.Error("colour or a line written over, without a terminal")
	}
	for _, want := range []string{
		`\$ whctl migrate up\n +applied 00001_work_table.sql`,
		`\$ whctl enqueue --file events.jsonl`,
		`\$ whctl deliver --once --max-time 2s --worker-id tick-a 2>>deliver.log &\n +\$ whctl deliver --once --max-time 2s --worker-id tick-b`,
		`registrar  503 the registrar is busy, come again: E-04 E-07\n`,
		`registrar  400 student.birth_date: \[redacted\] is no date, want YYYY-MM-DD: E-11\n`,
		`11 attempts for 11 deliveries`,
		`registrar  200 enrolled: E-04 E-07\n`,
		`E-07 was due at [\d:.]+Z and sent at [\d:.]+Z\.`,
		`\$ kill -9 \d+\n +\[1\]\+  Killed`,
		`registrar  200 enrolled: E-12\n`,
		`registrar  200 known already, nothing changed: E-12\n`,
		`\n.*"attempt":1,"class":"lost",.*\n.*"attempt":2,"class":"ok",`,
		`(?s)\$ whctl dlq list\n.*E-11`,
	} {
		if !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("not in the story: %s", want)
		}
	}
	for _, datum := range personal(events())[3:] { // the first student's line is shown on purpose
		if strings.Contains(r.Stdout, datum) {
			t.Errorf("the story tells %q of a student", datum)
		}
	}
}

// A signal in the middle ends it, and cleans up.
func TestStoryIsBrokenOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signal  syscall.Signal
		chapter int
		after   string
		code    int
	}{
		{"at the stage", syscall.SIGINT, 1, "gone at the end", 130},
		{"between commands", syscall.SIGTERM, 1, "$ whctl migrate up", 143},
		{"while it waits", syscall.SIGINT, 4, "… they are due", 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := watch(t)
			reach(p, c.chapter)
			p.WaitStdout(c.after)
			p.Signal(c.signal)
			if r := p.Wait(); r.Code != c.code || strings.Contains(r.Stdout, lastLine) {
				t.Errorf("exit %d, stderr %q, stdout:\n%s", r.Code, r.Stderr, r.Stdout)
			}
		})
	}
}

// What --keep leaves can be used as it says, and ends with the demo.
func TestStoryIsKept(t *testing.T) {
	t.Parallel()
	p := watch(t, "--keep")
	reach(p, 9)
	p.WaitStdout("$ psql 'postgres:///")
	var commands []string
	_, kept, _ := strings.Cut(p.Stdout(), "In another terminal:")
	for _, m := range regexp.MustCompile(`\$ (.*)\n`).FindAllStringSubmatch(kept, -1) {
		if !strings.HasPrefix(m[1], "psql") { // not every machine has the client
			commands = append(commands, m[1])
		}
	}
	r := testbed.Run(t, testbed.Cmd{Path: "/bin/sh", Args: []string{"-euc", strings.Join(commands, "\n")}})
	if r.Code != 0 || !strings.Contains(r.Stdout, "enrolment-E-11") || !strings.Contains(r.Stdout, `"delivered":1`) {
		t.Errorf("exit %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	p.Signal(syscall.SIGTERM)
	if r := p.Wait(); r.Code != 143 {
		t.Errorf("exit %d, stderr %q", r.Code, r.Stderr)
	}
}

// A slow machine, or a user who comes between, leaves more than one delivery for the
// last ticks.
func TestDrainGoesOnUntilNothingIsOpen(t *testing.T) {
	t.Parallel()
	io, _, out, _ := console.Test()
	io.LookupEnv = os.LookupEnv
	talk := newTalk(io, false)
	stage, err := build(t.Context(), Options{Streams: io, Binary: testbed.Binary(t)}, talk)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stage.strike(); err != nil {
			t.Error(err)
		}
	}()
	s := &story{stage: stage, talk: talk}
	for _, step := range []func(context.Context) error{
		s.install, s.enqueue, func(ctx context.Context) error { return s.drain(ctx, "it is due") },
	} {
		if err := step(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	got := failed(t, stage.admin)
	if len(got) != 1 || got[0] != "11 delivered, 1 dead" { // the twelfth was not enqueued
		t.Errorf("failed %q\n%s", got, out)
	}
	if n := strings.Count(out.String(), "$ whctl deliver"); n < 2 {
		t.Errorf("%d ticks:\n%s", n, out)
	}
}
