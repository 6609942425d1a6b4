package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const events = 300_000

// BenchmarkEnqueueJSONL enqueues 300,000 lines of 100 destinations (payloads of about
// 250 bytes) from a file, and then the same file again, where all are duplicates.
// Reported are both rates, the processor time per line of the program and of the server,
// and the WAL per line.
func BenchmarkEnqueueJSONL(b *testing.B) {
	pg := startPostgres(b)
	binary := build(b)
	for b.Loop() {
		db := pg.database(b, binary)
		db.events(b)
		first := db.enqueue(b, pg, "enqueued")
		again := db.enqueue(b, pg, "duplicates")
		b.ReportMetric(first.rate, "lines/s")
		b.ReportMetric(again.rate, "duplicates/s")
		b.ReportMetric(first.cpu, "client-µs/line")
		b.ReportMetric(first.server, "server-µs/line")
		b.ReportMetric(again.server, "server-µs/duplicate")
		b.ReportMetric(first.wal, "WAL-B/line")
	}
}

func (d *database) events(b *testing.B) {
	b.Helper()
	var dests strings.Builder
	dests.WriteString("destinations:\n")
	for i := range destinations {
		fmt.Fprintf(&dests, "  - {name: d%d, url: \"https://hooks.example/d/%d\"}\n", i, i)
	}
	file, err := os.Create(filepath.Join(d.dir, "events.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewWriter(file)
	filler := strings.Repeat("abcde ", 35)
	for i := range events {
		_, _ = fmt.Fprintf(lines, `{"destination":"d%d","type":"enrolment.changed","subject":"E-%08x","tenant":"t%d","event_version":%d,`+
			`"event_at":"2026-01-31T10:00:00.%06dZ","payload":{"n":%d,"text":%q,"ok":true}}`+"\n",
			i%destinations, uint32(i)*2654435761, i%7, i%9+1, i, i, filler) // subjects come in no order
	}
	d.file(b, "whctl.yaml", config)
	d.file(b, "destinations.yaml", dests.String())
	if err := errors.Join(lines.Flush(), file.Close()); err != nil {
		b.Fatal(err)
	}
	d.whctl(b, "migrate", "up")
	d.whctl(b, "destination", "apply", "-f", "destinations.yaml", "--quiet")
}

// enqueued are the figures of one run over the file.
type enqueued struct{ rate, cpu, server, wal float64 }

func (d *database) enqueue(b *testing.B, pg *postgres, want string) enqueued {
	b.Helper()
	wal, server, begin := d.wal(b), serverTime(b, pg.server.PID()), time.Now()
	out, state := d.whctl(b, "enqueue", "--file", "events.jsonl", "-o", "json")
	took := time.Since(begin)
	var sum map[string]int
	if err := json.Unmarshal(out, &sum); err != nil || sum[want] != events {
		b.Fatalf("summary %s, %v; want %d %s", out, err, events, want)
	}
	return enqueued{
		rate:   events / took.Seconds(),
		cpu:    float64((state.UserTime() + state.SystemTime()).Microseconds()) / events,
		server: float64((serverTime(b, pg.server.PID()) - server).Microseconds()) / events,
		wal:    (d.wal(b) - wal) / events,
	}
}

// serverTime is the processor time of the server's processes, those that have ended
// included: Linux alone tells.
func serverTime(b *testing.B, postmaster int) (sum time.Duration) {
	b.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The fields behind the name, which is in parentheses: state, parent, …
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		own := filepath.Base(filepath.Dir(path)) == strconv.Itoa(postmaster)
		if !own && fields[1] != strconv.Itoa(postmaster) {
			continue
		}
		ticks := fields[11:13] // its own time, user and system
		if own {
			ticks = fields[13:15] // of children that have ended
		}
		for _, t := range ticks {
			n, err := strconv.ParseInt(t, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(n) * 10 * time.Millisecond // 100 a second on every Linux
		}
	}
	return sum
}
