package bench

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"example.com/whctl/internal/localpg"
)

const (
	deliveries   = 100_000
	destinations = 100
	ceilingPosts = 200_000
	inFlight     = 64
)

// BenchmarkDeliverOnce delivers 100,000 due rows of 100 destinations (512 bytes each,
// signed) to a receiver that answers at once, and posts as many requests as fast as
// plain net/http does, in the same run: the ceiling. Reported are both rates, their
// ratio, the processor time of the run per delivery, and the WAL per delivery.
func BenchmarkDeliverOnce(b *testing.B) {
	receiver := startReceiver(b)
	pg := startPostgres(b)
	binary := build(b)
	for b.Loop() {
		db := pg.database(b, binary)
		db.load(b, receiver.url)
		ceiling := receiver.ceiling(b)
		run := db.deliver(b)
		if n := receiver.seen.Load(); n < deliveries {
			b.Fatalf("the receiver saw %d requests, want %d", n, deliveries)
		}
		b.ReportMetric(run.rate, "deliveries/s")
		b.ReportMetric(ceiling, "ceiling-posts/s")
		b.ReportMetric(run.rate/ceiling, "of-ceiling")
		b.ReportMetric(run.cpu, "client-µs/delivery")
		b.ReportMetric(run.wal, "WAL-B/delivery")
	}
}

// receiver answers 200 at once and counts.
type receiver struct {
	url  string
	seen atomic.Int64
}

func startReceiver(b *testing.B) *receiver {
	b.Helper()
	r := &receiver{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		r.seen.Add(1)
	})}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	r.url = "http://" + l.Addr().String()
	return r
}

// ceiling is how many POSTs a second plain net/http makes with as much of a request as
// whctl sends, with nothing else to do.
func (r *receiver) ceiling(b *testing.B) float64 {
	b.Helper()
	defer r.seen.Store(0)
	transport := &http.Transport{MaxIdleConnsPerHost: inFlight, DisableCompression: true}
	defer transport.CloseIdleConnections()
	body := bytes.Repeat([]byte("x"), 700)
	var left atomic.Int64
	left.Store(ceilingPosts)
	begin := time.Now()
	var wg sync.WaitGroup
	for range inFlight {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, r.url+"/hook", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	return ceilingPosts / time.Since(begin).Seconds()
}

type postgres struct {
	server *localpg.Server
	admin  *sql.DB
	n      int
}

func startPostgres(b *testing.B) *postgres {
	b.Helper()
	server, err := localpg.Start(b.Context(), localpg.Options{Durable: true, Settings: map[string]string{
		"shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "50",
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Stop() })
	admin, err := sql.Open("postgres", server.URL("postgres"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = admin.Close() })
	return &postgres{server: server, admin: admin}
}

// database is a migrated database and what runs whctl on it.
type database struct {
	url    string
	db     *sql.DB
	binary string
	dir    string
}

func (p *postgres) database(b *testing.B, binary string) *database {
	b.Helper()
	p.n++
	name := fmt.Sprintf("bench_%d", p.n)
	if _, err := p.admin.ExecContext(b.Context(), "CREATE DATABASE "+name); err != nil {
		b.Fatal(err)
	}
	d := &database{url: p.server.URL(name), binary: binary, dir: b.TempDir()}
	var err error
	if d.db, err = sql.Open("postgres", d.url); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.db.Close() })
	return d
}

const config = `
policies: {default: {max_in_flight: 32, circuit: {failures: 0}}}
egress: {require_https: false, allow_cidrs: [127.0.0.1/32]}
keys: {bench: {current: {env: BENCH_KEY}}}
`

func (d *database) load(b *testing.B, url string) {
	b.Helper()
	var dests, lines strings.Builder
	dests.WriteString("destinations:\n")
	for i := range destinations {
		fmt.Fprintf(&dests, "  - {name: d%d, url: %q, key: bench}\n", i, fmt.Sprintf("%s/d/%d", url, i))
	}
	filler := strings.Repeat("x", 480)
	for i := range deliveries {
		fmt.Fprintf(&lines, `{"destination":"d%d","type":"bench.happened","subject":"s%d","payload":{"n":%d,"x":%q}}`+"\n", i%destinations, i, i, filler)
	}
	d.file(b, "whctl.yaml", config)
	d.file(b, "destinations.yaml", dests.String())
	d.file(b, "events.jsonl", lines.String())
	d.whctl(b, "migrate", "up")
	d.whctl(b, "destination", "apply", "-f", "destinations.yaml")
	d.whctl(b, "enqueue", "--file", "events.jsonl", "--quiet")
	if _, err := d.db.ExecContext(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	if _, err := d.db.ExecContext(b.Context(), "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
}

func (d *database) file(b *testing.B, name, text string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// whctl runs the binary and returns its output and what it used.
func (d *database) whctl(b *testing.B, args ...string) ([]byte, *os.ProcessState) {
	b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), d.binary, args...)
	cmd.Dir = d.dir
	cmd.Env = []string{"WHCTL_DATABASE_URL=" + d.url, "BENCH_KEY=whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "PATH=" + os.Getenv("PATH"), "HOME=" + d.dir}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("whctl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out, cmd.ProcessState
}

// figures are those of one run.
type figures struct{ rate, cpu, wal float64 }

func (d *database) deliver(b *testing.B) figures {
	b.Helper()
	before := d.wal(b)
	begin := time.Now()
	out, state := d.whctl(b, "deliver", "--once", "-o", "json")
	took := time.Since(begin)
	var sum struct{ Delivered int }
	if err := json.Unmarshal(out, &sum); err != nil || sum.Delivered != deliveries {
		b.Fatalf("summary %s, %v; want %d delivered", out, err, deliveries)
	}
	return figures{
		rate: deliveries / took.Seconds(),
		cpu:  float64((state.UserTime() + state.SystemTime()).Microseconds()) / deliveries,
		wal:  (d.wal(b) - before) / deliveries,
	}
}

func (d *database) wal(b *testing.B) (bytes float64) {
	b.Helper()
	if err := d.db.QueryRowContext(b.Context(), `SELECT pg_current_wal_insert_lsn() - '0/0'`).Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}
