package testbed

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// RunOnTerminal runs a program with a terminal of its own, so many columns wide, and
// returns what it wrote there, byte for byte. Stdin of c is not used: nobody types.
func RunOnTerminal(t testing.TB, c Cmd, columns int) (text string, code int) {
	t.Helper()
	master, slave := terminal(t, columns)
	if c.Path == "" {
		c.Path = Binary(t)
	}
	cmd := exec.CommandContext(t.Context(), c.Path, c.Args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm-256color"}, c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // whoever loses the terminal is hung up
	err := cmd.Start()
	_ = slave.Close()
	if err != nil {
		t.Fatalf("start %s: %v", c.Path, err)
	}
	timer := time.AfterFunc(limit(t), func() { _ = cmd.Process.Kill() }) // it may have ended
	defer timer.Stop()
	var all strings.Builder
	_, _ = io.Copy(&all, master) // EIO is the end: nobody has the terminal open
	if err := cmd.Wait(); cmd.ProcessState == nil {
		t.Fatalf("wait for %s: %v", c.Path, err)
	}
	return all.String(), cmd.ProcessState.ExitCode()
}

// terminal opens a pair that changes nothing on the way.
func terminal(t testing.TB, columns int) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}
