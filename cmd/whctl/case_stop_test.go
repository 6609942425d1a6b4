package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/whctl/internal/testbed"
)

// until waits for a condition that nothing announces.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// A stop that comes while the run is connecting, or waits for the database, ends it with
// the signal's own code, not with that of a lost database.
func TestASignalAtAnyMoment(t *testing.T) {
	codes := map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129, syscall.SIGQUIT: 131}
	for signal, code := range codes {
		t.Run("connecting/"+signal.String(), func(t *testing.T) {
			b := newBench(t)
			defer b.check()
			link := testbed.Proxy(t, b.db.URL)
			b.url = link.URL(b.db.URL)
			link.Hold()
			p := b.start("deliver", "--once")
			until(t, "the connection", func() bool { return link.Open() > 0 })
			p.Signal(signal)
			if res := p.Wait(); res.Code != code || strings.Contains(res.Stderr, "goroutine") {
				t.Errorf("exit %d, want %d: %s", res.Code, code, res.Stderr)
			}
		})
		t.Run("claiming/"+signal.String(), func(t *testing.T) {
			b := newBench(t)
			defer b.check()
			b.receiver("r", nil)
			b.due("r", 1)
			tx, err := b.db.Admin.BeginTxx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), `LOCK TABLE whctl.deliveries`); err != nil {
				t.Fatal(err)
			}
			p := b.start("deliver", "--once")
			until(t, "the run to wait for the lock", func() bool {
				return testbed.QueryInt(t, b.db, `SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
			})
			p.Signal(signal)
			if res := p.Wait(); res.Code != code {
				t.Errorf("exit %d, want %d: %s", res.Code, code, res.Stderr)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if n := b.count(`state = 'scheduled' AND attempts = 0`); n != 1 {
				t.Error("a claim that was broken off was stored")
			}
		})
	}
}

// timeout(1) signals its child, and then the group that the child is in. That is no second
// thought: what is in flight is recorded.
func TestTheSameSignalTwiceInAMoment(t *testing.T) {
	b := newBench(t)
	defer b.check()
	for range 5 {
		gate := make(chan struct{})
		name := "r" + strconv.Itoa(int(b.count(`true`)))
		r := b.receiver(name, func(_ http.ResponseWriter, _ *http.Request, req *testbed.Request) { req.Hold(gate) })
		b.due(name, 1)
		p := b.start("deliver", "--once", "--log-format", "json")
		r.Wait(1)
		p.Signal(syscall.SIGTERM)
		p.Signal(syscall.SIGTERM)
		p.WaitStderr("stopping")
		close(gate)
		if res := p.Wait(); res.Code != 143 || b.count(`state = 'delivered'`) != b.count(`true`) {
			t.Errorf("exit %d, %d of %d are delivered: %s", res.Code, b.count(`state = 'delivered'`), b.count(`true`), res.Stderr)
		}
	}
}

// A link to the database that breaks in the middle of a COPY gives EPIPE as a closed
// stdout does; it is no success.
func TestALostDatabaseIsNoClosedPipe(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.receiver("r", nil)
	in, feed := io.Pipe()
	cmd := b.cmd("enqueue", "--strict", "--file", "-")
	cmd.Stdin = in
	p := testbed.Start(t, cmd)
	line := func(n int) {
		_, _ = fmt.Fprintf(feed, `{"destination":"r","type":"case","subject":"s%d","payload":{"x":%q}}`+"\n", n, strings.Repeat("x", 500))
	}
	go func() {
		<-p.Done()
		_ = in.Close() // whoever still feeds is let go
	}()
	n := 0
	for ; n < 20_000; n++ {
		line(n)
	}
	testbed.Exec(t, b.db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app'`)
	for ; n < 60_000; n++ {
		line(n)
	}
	_ = feed.Close()
	res := p.Wait()
	stored := b.count(`true`)
	if res.Code == 0 && stored != 60_000 || res.Code != 0 && (res.Code != 69 || stored != 0) {
		t.Errorf("exit %d with %d of 60000 stored: %s", res.Code, stored, res.Stderr)
	}
}

// A guard that cannot be asked holds its destination's deliveries back, loudly.
func TestABrokenGuardAlerts(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(settings + `guards: {case: "select nosuch from nowhere"}` + "\n")
	r := b.receiver("r", nil)
	b.due("r", 3)
	res := b.must(78, "deliver", "--once", "--quiet")
	if !strings.Contains(res.Stderr, "nowhere") || strings.Contains(res.Stderr, "migrate up") {
		t.Errorf("stderr %s", res.Stderr)
	}
	if n := b.count(`state = 'scheduled' AND attempts = 0`); n != 3 || r.Count() != 0 {
		t.Errorf("%d wait untouched, %d requests", n, r.Count())
	}
}

// The role of the worker may not read what a guard asks for: that is named, and what to do.
func TestAGuardWithoutAGrantAlerts(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(settings + `guards: {case: "select true from public.reservations"}` + "\n")
	testbed.Exec(t, b.db, `CREATE TABLE public.reservations (id text)`)
	b.receiver("r", nil)
	b.due("r", 3)
	if res := b.must(77, "deliver", "--once", "--quiet"); !strings.Contains(res.Stderr, "reservations") || !strings.Contains(res.Stderr, "what the guard reads") {
		t.Errorf("stderr %s", res.Stderr)
	}
	if n := b.count(`state = 'scheduled' AND attempts = 0`); n != 3 {
		t.Errorf("%d wait untouched", n)
	}
}

// An empty or unknown name must never mean everything, or nothing without a word.
func TestNamesThatAreNone(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	b.due("r", 2)
	b.must(64, "deliver", "--once", "--destination", "")
	b.must(64, "dlq", "list", "--destination", "")
	b.must(4, "deliver", "--once", "--destination", "typo")
	if r.Count() != 0 {
		t.Errorf("%d requests", r.Count())
	}
}

func TestAReadOnlyDatabaseIsLeftAlone(t *testing.T) {
	b := newBench(t)
	defer b.check()
	r := b.receiver("r", nil)
	b.due("r", 2)
	b.db.Set(t, "default_transaction_read_only", "on")
	for _, args := range [][]string{{"deliver", "--once"}, {"enqueue", "--destination", "r", "--type", "t", "--payload", "/dev/null"}} {
		res := b.must(69, args...)
		if !strings.Contains(res.Stderr, "read-only") {
			t.Errorf("stderr %s", res.Stderr)
		}
	}
	b.must(0, "dlq", "list")
	if r.Count() != 0 {
		t.Errorf("%d requests", r.Count())
	}
}

// Somebody types a command that reads standard input, and thinks better of it.
func TestASignalEndsTheWaitForInput(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.receiver("r", nil)
	for _, args := range [][]string{
		{"enqueue", "--destination", "r", "--type", "t", "--payload", "-"},
		{"enqueue", "--file", "-"},
		{"destination", "apply", "-f", "-"},
	} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := testbed.Start(t, testbed.Cmd{Args: args, Stdin: in, Env: []string{"WHCTL_CONFIG=" + b.config, "WHCTL_DATABASE_URL=" + b.url}})
		written := make(chan error, 1)
		go func() {
			_, err := out.Write(bytes.Repeat([]byte(" "), 128<<10)) // twice a pipe: when it is through, somebody reads
			written <- err
		}()
		if err := testbed.Await(t, "the reader", written); err != nil {
			t.Fatal(err)
		}
		p.Signal(syscall.SIGTERM)
		if res := p.Wait(); res.Code != 143 {
			t.Errorf("whctl %s: exit %d: %s", strings.Join(args, " "), res.Code, res.Stderr)
		}
		if err := errors.Join(in.Close(), out.Close()); err != nil {
			t.Error(err)
		}
	}
}
