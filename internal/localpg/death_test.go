//go:build linux

package localpg

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child starts a server, tells its process id and waits for its own death.
func child(dir string) int {
	s, err := Start(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.PID())
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
	return 0
}

// A test run that is killed, runs into its time limit or panics calls no Stop. Its
// server must end all the same, and the next start removes what it left.
func TestServerDiesWithItsStarter(t *testing.T) {
	dir := openDir(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil { // held open
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the child says %q", line)
	}
	server, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(server) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	ended := []unix.PollFd{{Fd: int32(server), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, int((20 * time.Second).Milliseconds())); err != nil || n != 1 {
		t.Fatalf("the server %d lives on: %v", pid, err)
	}

	left, err := filepath.Glob(filepath.Join(dir, folderPattern))
	if err != nil || len(left) != 1 {
		t.Fatalf("expected one folder left behind: %v, %v", left, err)
	}
	s := start(t, Options{Dir: dir})
	left, err = filepath.Glob(filepath.Join(dir, folderPattern))
	if err != nil || len(left) != 1 || !strings.HasPrefix(s.folder.data(), left[0]) {
		t.Errorf("the next start left %v, %v", left, err)
	}
}

// alive does not count a process that has ended and waits to be collected.
func alive(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}
