package stage

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"example.com/whctl/internal/bench/gauge"
)

// lookEvery is how often a running program's memory is looked at. Its peak never falls,
// so only the last moment can be missed.
const lookEvery = 10 * time.Millisecond

// Ended is a program that has ended.
type Ended struct {
	Out   []byte
	Began time.Time // right before its exec
	CPU   time.Duration
	Peak  int64 // resident size, in bytes
	Code  int   // its exit status; -1: a signal
}

// Run runs a program to its end. One that ends with another status than 0 is an error
// with what it said on stderr; what it printed and took is told all the same.
func Run(cmd *exec.Cmd) (Ended, error) {
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return Ended{}, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var peak int64
	for {
		select {
		case <-tick.C:
			peak = max(peak, gauge.PeakRSS(cmd.Process.Pid))
			continue
		case err := <-done:
			s := cmd.ProcessState
			e := Ended{Out: out.Bytes(), Began: began, CPU: s.UserTime() + s.SystemTime(), Peak: peak, Code: s.ExitCode()}
			if err != nil && !s.Success() { // one that was stopped by its context and ended with 0 is none
				return e, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(words.Bytes()))
			}
			return e, nil
		}
	}
}
