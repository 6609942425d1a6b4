package testbed_test

import (
	"strings"
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
)

// sh is a program that is always there.
func sh(script string, c testbed.Cmd) testbed.Cmd {
	c.Path, c.Args = "/bin/sh", []string{"-c", script}
	return c
}

func TestRunTellsHowItEnded(t *testing.T) {
	t.Setenv("WHCTL_STRANGE", "x") // must not be inherited
	got := testbed.Run(t, sh(`read line; echo "$line $MARK $WHCTL_STRANGE."; ls -A; echo oops >&2; exit 7`,
		testbed.Cmd{Stdin: strings.NewReader("hello\n"), Env: []string{"MARK=here"}}))
	if got.Stdout != "hello here .\n" || got.Stderr != "oops\n" || got.Code != 7 || got.Signal != 0 || got.MaxRSS == 0 {
		t.Errorf("%+v", got)
	}
}

func TestProcessTakesSignals(t *testing.T) {
	t.Parallel()
	p := testbed.Start(t, sh(`trap 'echo term; exit 3' TERM; echo ready >&2; while :; do read x; done`, testbed.Cmd{}))
	p.WaitStderr("ready")
	p.Signal(syscall.SIGSTOP)
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT)
	if got := p.Wait(); got.Code != 3 || got.Stdout != "term\n" {
		t.Errorf("%+v", got)
	}
	q := testbed.Start(t, sh(`echo ready; exec cat`, testbed.Cmd{Stdin: blocked{t}}))
	q.WaitStdout("ready")
	q.Kill()
	if got := q.Wait(); got.Code != -1 || got.Signal != syscall.SIGKILL {
		t.Errorf("%+v", got)
	}
}

// blocked is an input that says nothing until the test ends.
type blocked struct{ t *testing.T }

func (b blocked) Read([]byte) (int, error) {
	<-b.t.Context().Done()
	return 0, b.t.Context().Err()
}
