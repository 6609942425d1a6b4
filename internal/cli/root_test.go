package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// timeout(1) says SIGTERM twice within microseconds and means one: what is in flight is to
// be recorded all the same. Another signal, or the same one later, is meant.
func TestASignalsEchoIsNoSecondSignal(t *testing.T) {
	for _, c := range []struct {
		echo  time.Duration
		heard []os.Signal // after the first
		want  os.Signal
	}{
		{time.Hour, []os.Signal{syscall.SIGTERM, syscall.SIGTERM, os.Interrupt}, os.Interrupt},
		{0, []os.Signal{syscall.SIGTERM, os.Interrupt}, syscall.SIGTERM},
	} {
		signals := make(chan os.Signal, len(c.heard))
		for _, s := range c.heard {
			signals <- s
		}
		if got := second(signals, nil, syscall.SIGTERM, c.echo); got != c.want {
			t.Errorf("an echo of %s: after %v the second is %v, want %v", c.echo, c.heard, got, c.want)
		}
	}
	done := make(chan struct{})
	close(done)
	if got := second(nil, done, syscall.SIGTERM, 0); got != nil {
		t.Errorf("the end of the command is taken for %v", got)
	}
}
