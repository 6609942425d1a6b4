package testbed

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cmd is one call of a program.
type Cmd struct {
	Path  string // "" is whctl, built from this tree
	Args  []string
	Env   []string // NAME=value, beside PATH and a HOME of its own; nothing is inherited
	Stdin io.Reader
	Dir   string // "" is an empty folder of its own
}

// Result is how a program ended.
type Result struct {
	Stdout   string
	Stderr   string
	Code     int            // -1 when a signal ended it
	Signal   syscall.Signal // 0 when it ended by itself
	Duration time.Duration
	MaxRSS   int64 // bytes; never less than the test binary had used when it started the program (Linux counts that in)
}

// Process is a program that was started.
type Process struct {
	PID int

	t      testing.TB
	cmd    *exec.Cmd
	name   string
	out    *output
	err    *output
	begun  time.Time
	done   chan struct{} // closed when it has ended; result and failed are set then
	result Result
	failed error
}

// Run runs a program to its end, and fails the test when it takes too long.
func Run(t testing.TB, c Cmd) Result {
	t.Helper()
	return Start(t, c).Wait()
}

// Start starts a program. It is killed when the test ends before it.
func Start(t testing.TB, c Cmd) *Process {
	t.Helper()
	if c.Path == "" {
		c.Path = Binary(t)
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	cmd := exec.Command(c.Path, c.Args...) //nolint:noctx // the test's end kills it
	cmd.Dir = c.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, c.Env...)
	cmd.WaitDelay = time.Second // for grandchildren that hold on to our pipes
	if file, ok := c.Stdin.(*os.File); ok || c.Stdin == nil {
		if ok {
			cmd.Stdin = file
		}
		return start(t, cmd)
	}
	// Not as cmd.Stdin: Wait would wait for the reader also when the program has ended.
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, cmd)
	go func() {
		_, _ = io.Copy(in, c.Stdin) // a program need not read to the end
		_ = in.Close()              // Wait may have done so
	}()
	return p
}

// start runs cmd on a thread that is kept for as long as the child lives: the kernel
// counts the end of the starting thread as the death of the parent.
func start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, out: newOutput(), err: newOutput(), begun: time.Now(), done: make(chan struct{})}
	p.name = strings.Join(append([]string{cmd.Path}, cmd.Args[1:]...), " ")
	cmd.Stdout, cmd.Stderr = p.out, p.err
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithTest(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.finish(cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	p.PID = cmd.Process.Pid
	t.Cleanup(p.Kill)
	return p
}

func (p *Process) finish(err error) {
	defer close(p.done)
	state := p.cmd.ProcessState
	p.result = Result{Stdout: p.out.String(), Stderr: p.err.String(), Code: state.ExitCode(), Duration: time.Since(p.begun)}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.result.Signal = status.Signal()
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		p.result.MaxRSS = usage.Maxrss * 1024 // Linux counts in KiB
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.failed = err
	}
}

// Signal sends a signal to the program alone. It is harmless when that has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("signal %v to %s: %v", s, p.name, err)
	}
}

// Kill ends the program and its children at once, stopped or not, and waits for it.
func (p *Process) Kill() {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // nothing is left of it when that fails
		<-p.done
	}
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the program. It fails the test, with what the program said,
// when that takes too long.
func (p *Process) Wait() Result {
	p.t.Helper()
	timer := time.NewTimer(limit(p.t))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
		p.t.Fatalf("%s did not end; stdout:\n%s\nstderr:\n%s", p.name, p.out, p.err)
	}
	if p.failed != nil {
		p.t.Fatalf("%s: %v", p.name, p.failed)
	}
	return p.result
}

// Stdout is what it wrote until now.
func (p *Process) Stdout() string { return p.out.String() }

// Stderr is what it wrote until now.
func (p *Process) Stderr() string { return p.err.String() }

// WaitStderr waits until the program has written text to stderr, and fails the test when
// it ends without, or takes too long.
func (p *Process) WaitStderr(text string) {
	p.t.Helper()
	p.await(p.err, text)
}

// WaitStdout is WaitStderr for stdout.
func (p *Process) WaitStdout(text string) {
	p.t.Helper()
	p.await(p.out, text)
}

func (p *Process) await(o *output, text string) {
	p.t.Helper()
	if !p.says(o, text) {
		p.t.Fatalf("%s did not say %q; stdout:\n%s\nstderr:\n%s", p.name, text, p.out, p.err)
	}
}

// says waits for text, and is false when the program ended without it or time ran out.
func (p *Process) says(o *output, text string) bool {
	timer := time.NewTimer(limit(p.t))
	defer timer.Stop()
	for {
		said, changed := o.look()
		if strings.Contains(said, text) {
			return true
		}
		select {
		case <-changed:
		case <-p.done:
			return strings.Contains(o.String(), text)
		case <-timer.C:
			return false
		}
	}
}
