package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"example.com/whctl/internal/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// busy is a run that has done some things.
func busy() *Metrics {
	m := New("1.2.3", true)
	m.Claimed(5)
	m.Claimed(0)
	m.Recorded(work.OK, work.EndDelivered, 20*time.Millisecond)
	m.Recorded(work.Unavailable, work.EndRetried, 3*time.Second)
	m.Recorded("", work.EndReleased, 0)
	m.Held(map[work.Hold]int{work.HoldPaused: 2})
	m.Backlog(7, 90*time.Second)
	return m
}

func file(t *testing.T, m *Metrics, name string) (*File, string) {
	t.Helper()
	f, err := m.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return f, read(t, name)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestMetricsAreCounted(t *testing.T) {
	_, text := file(t, busy(), filepath.Join(t.TempDir(), "whctl.prom"))
	has(t, text,
		`whctl_attempts_total{class="ok"} 1`, `whctl_attempts_total{class="unavailable"} 1`, `whctl_attempts_total{class="dns"} 0`,
		`whctl_deliveries_total{result="delivered"} 1`, `whctl_deliveries_total{result="released"} 1`, `whctl_deliveries_total{result="dead"} 0`,
		`whctl_claims_total 2`, `whctl_in_flight 2`, `whctl_held_destinations{reason="paused"} 2`, `whctl_held_destinations{reason="rate"} 0`,
		`whctl_attempt_duration_seconds_bucket{le="0.025"} 1`, `whctl_attempt_duration_seconds_count 2`,
		`whctl_due_deliveries 7`, `whctl_oldest_due_age_seconds 90`, `whctl_build_info{version="1.2.3"} 1`,
	)
}

// Every label's values are known beforehand, so the number of series never grows.
func TestSeriesAreBounded(t *testing.T) {
	dir := t.TempDir()
	series := func(text string) (n int) {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				n++
			}
		}
		return n
	}
	_, before := file(t, New("v", true), filepath.Join(dir, "a"))
	_, after := file(t, busy(), filepath.Join(dir, "b"))
	if a, b := series(before), series(after); a != b || a > 100 {
		t.Errorf("%d series at first, %d later", a, b)
	}
}

func TestNamesAreInGoodForm(t *testing.T) {
	_, text := file(t, busy(), filepath.Join(t.TempDir(), "whctl.prom"))
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Two runs that did the same are two runs.
func TestAFileGoesOnFromTheLastRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "whctl.prom")
	for range 3 {
		m := busy()
		f, _ := file(t, New("v", true), name) // a run that has done nothing yet changes nothing
		f.metrics = m
		m.Succeeded(time.UnixMilli(1_700_000_000_500))
		if err := f.Write(); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(); err != nil { // a worker writes again and again
			t.Fatal(err)
		}
	}
	failed := New("v", true)
	_, text := file(t, failed, name)
	has(t, text, `whctl_claims_total 6`, `whctl_deliveries_total{result="retried"} 3`, `whctl_attempts_total{class="ok"} 3`,
		`whctl_attempt_duration_seconds_bucket{le="0.025"} 3`, `whctl_attempt_duration_seconds_count 6`, `whctl_attempt_duration_seconds_bucket{le="+Inf"} 6`,
		`whctl_in_flight 0`, `whctl_last_success_timestamp_seconds 1.7000000005e+09`)
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// A file that cannot be written, or that is something else, is left alone and said.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(other, []byte("Dear Sir,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Not the machine's /dev/null: a fault here, run as root, would put a file in its place.
	device := filepath.Join(dir, "device")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{other, dir, filepath.Join(dir, "nosuch", "whctl.prom"), device} {
		if _, err := New("v", true).OpenFile(name); !errors.Is(err, work.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := read(t, other); got != "Dear Sir,\n" {
		t.Errorf("it was written over: %q", got)
	}
}

func TestAWorkerWritesUntilItEnds(t *testing.T) {
	f, _ := file(t, New("v", true), filepath.Join(t.TempDir(), "whctl.prom"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.WriteUntil(ctx, func(err error) { t.Error(err) })
	}()
	cancel()
	<-ended
}

// Whoever reads the file after a count reads that count, as /metrics tells it.
func TestAFileIsWrittenWithEachCount(t *testing.T) {
	name := filepath.Join(t.TempDir(), "whctl.prom")
	synctest.Test(t, func(t *testing.T) {
		m := New("v", false)
		f, _ := file(t, m, name)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.WriteUntil(ctx, func(err error) { t.Error(err) })
		for due := range int64(3) {
			m.Held(map[work.Hold]int{work.HoldInFlight: int(due)})
			m.Backlog(due, 0)
			synctest.Wait()
			has(t, read(t, name), fmt.Sprint("whctl_due_deliveries ", due), fmt.Sprintf(`whctl_held_destinations{reason="in_flight"} %d`, due))
		}
		m.Claimed(1)
		<-time.After(writeEvery + time.Second) // a database that is away lets nothing be counted
		has(t, read(t, name), "whctl_in_flight 1")
	})
}

func serve(t *testing.T, m *Metrics) *Server {
	t.Helper()
	s, err := m.Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestMetricsAreServed(t *testing.T) {
	s := serve(t, busy())
	code, text := get(t, s, "/metrics")
	if code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	has(t, text, `whctl_claims_total 2`)
	if !strings.Contains(text, "process_resident_memory_bytes") {
		t.Error("nothing of the process")
	}
	if code, _ := get(t, s, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("an unknown path: %d", code)
	}
}

func TestHealth(t *testing.T) {
	m := New("v", true)
	s := serve(t, m)
	if code, text := get(t, s, "/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("at the start: %d %q", code, text)
	}
	m.began = m.began.Add(-2 * alive) // two minutes ago, without a turn
	if code, text := get(t, s, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "not turned") {
		t.Errorf("a loop that stands still: %d %q", code, text)
	}
	m.Turned()
	if code, _ := get(t, s, "/healthz"); code != http.StatusOK {
		t.Errorf("a loop that has turned: %d", code)
	}
}

func TestAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:9464": true, ":9464": true, "[::1]:0": true, "localhost:9464": true,
		"9464": false, "127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:70000": false, "": false, "a:b:1": false,
	} {
		if err := CheckAddress(address); (err == nil) != good || err != nil && !errors.Is(err, work.ErrUsage) {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := serve(t, New("v", true))
	if _, err := New("v", true).Serve(t.Context(), s.Address); !errors.Is(err, work.ErrConfig) || !strings.Contains(err.Error(), s.Address) {
		t.Errorf("a port that is taken: %v", err)
	}
}
