package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// The same file by two programs at once: each event is enqueued by one of them.
func TestEnqueueTheSameFileTwiceAtOnce(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	const n = 20_000
	var text strings.Builder
	for i := range n {
		text.WriteString(event(fmt.Sprintf("E-%d", i*7919%n), ""))
	}
	file := b.lines(text.String())
	var programs []*testbed.Process
	for range 2 {
		programs = append(programs, testbed.Start(t, testbed.Cmd{
			Args: []string{"enqueue", "--config", b.config, "-f", file, "-o", "json"}, Env: []string{"WHCTL_DATABASE_URL=" + b.db.URL},
		}))
	}
	var enqueued, duplicates int
	for _, p := range programs {
		r := p.Wait()
		if r.Code != 0 {
			t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
		}
		sum := decode[struct{ Enqueued, Duplicates, Conflicts, Rejected int }](t, r.Stdout)
		enqueued, duplicates = enqueued+sum.Enqueued, duplicates+sum.Duplicates
	}
	if enqueued != n || duplicates != n || b.rows() != n {
		t.Errorf("%d enqueued, %d duplicates, %d rows; want %d of each", enqueued, duplicates, b.rows(), n)
	}
	testbed.Check(t, b.db)
}

// awaitRows waits until so many deliveries have been committed. The server answers each
// question in its time, so that nothing is slept on.
func (b bench) awaitRows(n int64) {
	b.Helper()
	for begin := time.Now(); b.rows() < n; {
		if time.Since(begin) > 30*time.Second {
			b.Fatalf("%d rows came, want %d", b.rows(), n)
		}
	}
}

// stream starts enqueue on an input that stays open.
func (b bench) stream(url string) (*testbed.Process, *os.File) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = errors.Join(r.Close(), w.Close()) }) // the tests may have closed them
	return testbed.Start(b.T, testbed.Cmd{
		Args: []string{"enqueue", "--config", b.config, "-f", "-", "-o", "json"}, Env: []string{"WHCTL_DATABASE_URL=" + url}, Stdin: r,
	}), w
}

func TestEnqueueIsTold(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	program, in := b.stream(b.db.URL)
	if _, err := io.WriteString(in, event("E-1", "")+event("E-2", "")+`{"half`); err != nil {
		t.Fatal(err)
	}
	b.awaitRows(2)
	program.Signal(syscall.SIGTERM)
	r := program.Wait()
	if r.Code != exitTerminated || r.Stdout != `{"enqueued":2,"duplicates":0,"conflicts":0,"rejected":0}`+"\n" {
		t.Errorf("exit %d, %s", r.Code, r.Stdout)
	}
	if want := "whctl: standard input: stopped after line 2; what was enqueued stays, and the same lines again count as duplicates: stopped by terminated\n"; r.Stderr != want {
		t.Errorf("stderr %s, want %s", r.Stderr, want)
	}
	if b.rows() != 2 {
		t.Errorf("%d rows", b.rows())
	}
}

// The database goes away in the middle: what it has stays, and what was said says so.
func TestEnqueueLosesTheDatabase(t *testing.T) {
	b := enqueueBench(t, enqueueConfig)
	role, url := b.db.Login(t, "whctl_worker")
	program, in := b.stream(url)
	if _, err := io.WriteString(in, event("E-1", "")+"\n"+event("E-2", "")); err != nil {
		t.Fatal(err)
	}
	b.awaitRows(2)
	testbed.Exec(t, b.db, `ALTER ROLE `+role+` NOLOGIN`) // a refused log-in is not tried for long
	testbed.Exec(t, b.db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, role)
	go func() {
		_, _ = in.Write(bytes.Repeat([]byte(event("E-3", "")), 10)) // the program ends before it has read all
		_ = in.Close()
	}()
	r := program.Wait()
	if r.Code != exitUnreachable || r.Stdout != `{"enqueued":2,"duplicates":0,"conflicts":0,"rejected":0}`+"\n" {
		t.Errorf("exit %d, %s", r.Code, r.Stdout)
	}
	has(t, r.Stderr, "whctl: standard input: stopped after line 3; what was enqueued stays", "refuses the log-in")
}
