package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is how long a child may take to stop when it is asked to.
const patience = 10 * time.Second

// logFile takes what `deliver` logs, as the file of a crontab line would.
const logFile = "deliver.log"

// shell runs whctl as a user would, in the demo's folder.
type shell struct {
	binary string
	dir    string
	env    []string // all of it: nothing of the caller's reaches the children but PATH and HOME
	talk   *talk
}

// child is a whctl that was started. Its output is for one reader, after its end.
type child struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	err  bytes.Buffer
	done chan struct{} // closed when it has ended
	end  error
}

// environment is what the children get of the caller's.
func environment(lookup func(string) (string, bool), own ...string) []string {
	env := own
	for _, name := range []string{"PATH", "HOME"} {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// line is how the command is typed.
func line(args []string) string {
	text := "whctl"
	for _, arg := range args {
		if strings.ContainsAny(arg, " {}[]|") {
			arg = "'" + arg + "'"
		}
		text += " " + arg
	}
	if args[0] == "deliver" {
		text += " 2>>" + logFile
	}
	return text
}

// start starts whctl and prints nothing. The end of ctx stops it politely.
func (s *shell) start(ctx context.Context, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, s.binary, args...), done: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = s.dir, s.env
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	// A group of its own: Ctrl-C on the terminal is for the demo, which passes it on.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = patience
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start whctl: %w", err)
	}
	go func() {
		defer close(c.done)
		c.end = c.cmd.Wait()
	}()
	return c, nil
}

// kill ends the child at once, and returns when it has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only where it has ended, which done tells as well
	<-c.done
}

// finish waits for the child and shows what it said. Any end but exit 0 is an error.
func (s *shell) finish(ctx context.Context, c *child, args []string) error {
	<-c.done
	s.talk.output(c.out.String())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.end != nil:
		return fmt.Errorf("whctl %s: %w: %s", strings.Join(args, " "), c.end, strings.TrimSpace(c.err.String()))
	case args[0] == "deliver":
		return errors.Join(s.talk.err, appendTo(filepath.Join(s.dir, logFile), c.err.Bytes()))
	}
	s.talk.output(c.err.String())
	return s.talk.err
}

// run runs one command to its end, in full view.
func (s *shell) run(ctx context.Context, args ...string) error {
	s.talk.prompt(line(args))
	c, err := s.start(ctx, args...)
	if err != nil {
		return err
	}
	return s.finish(ctx, c, args)
}

// both runs two commands that start at the same moment.
func (s *shell) both(ctx context.Context, one, two []string) error {
	s.talk.prompt(line(one) + " &")
	s.talk.more(line(two) + " &")
	s.talk.more("wait")
	a, err := s.start(ctx, one...)
	if err != nil {
		return err
	}
	b, err := s.start(ctx, two...)
	if err != nil {
		a.kill()
		return err
	}
	return errors.Join(s.finish(ctx, a, one), s.finish(ctx, b, two))
}

// show prints a file of the folder, as cat does.
func (s *shell) show(name string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	s.talk.prompt("cat " + name)
	s.talk.output(string(text))
	return s.talk.err
}

// head prints the first line of a file.
func (s *shell) head(name string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	s.talk.prompt("head -n 1 " + name)
	s.talk.output(first)
	return s.talk.err
}

func appendTo(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
