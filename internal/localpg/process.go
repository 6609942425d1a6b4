package localpg

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running child and the thread that it depends on.
type process struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// startProcess starts cmd on a thread that is kept for as long as the child lives:
// the kernel counts the end of the starting thread as the death of the parent.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// stop ends the server and returns when it is gone: first politely (fast shutdown),
// then at once, then by force.
func (p *process) stop() {
	for _, step := range []struct {
		signal  syscall.Signal
		patient time.Duration
	}{{syscall.SIGINT, 10 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		// The only error is that it has ended already, which done tells as well.
		_ = p.cmd.Process.Signal(step.signal)
		timer := time.NewTimer(step.patient)
		select {
		case <-p.done:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
