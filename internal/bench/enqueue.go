package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

// enqueue measures `whctl enqueue --file` on an empty table: lines of 100 destinations
// with payloads of about 250 bytes; and the same file again, where all are duplicates.
func (l *lab) enqueue(ctx context.Context) error {
	n := l.scale(300_000, 100_000)
	file := filepath.Join(l.dir, "events.jsonl")
	if err := writeEvents(file, n); err != nil {
		return err
	}
	empty, err := l.filled(ctx, destinations, 0)
	if err != nil {
		return err
	}
	var fresh, again []gauge.Run
	for range l.rounds {
		err := l.onCopy(ctx, empty, func(d *stage.Database) error {
			run, err := l.enqueueFile(ctx, d, file, n, "enqueued")
			if err != nil {
				return err
			}
			l.note("enqueue --file", run)
			fresh = append(fresh, run)
			if run, err = l.enqueueFile(ctx, d, file, n, "duplicates"); err != nil {
				return err
			}
			l.note("enqueue --file, all duplicates", run)
			again = append(again, run)
			return nil
		})
		if err != nil {
			return err
		}
	}
	l.each("bulk enqueue", "lines/s", gauge.AtLeast(50_000, 100_000), fresh, gauge.Run.PerSecond)
	l.each("bulk enqueue of duplicates", "lines/s", nil, again, gauge.Run.PerSecond)
	return nil
}

// enqueueFile runs it and expects n lines to end as want says.
func (l *lab) enqueueFile(ctx context.Context, d *stage.Database, file string, n int, want string) (gauge.Run, error) {
	run, ended, err := l.spend(ctx, n, l.program.Command(ctx, d, "enqueue", "--file", file, "-o", "json"))
	if err != nil {
		return run, err
	}
	var sum map[string]int
	err = json.Unmarshal(ended[0].Out, &sum)
	if err == nil && sum[want] != n {
		err = fmt.Errorf("summary %s, want %d %s", ended[0].Out, n, want)
	}
	return run, err
}

// writeEvents writes n lines whose subjects come in no order.
func writeEvents(path string, n int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(file)
	filler := strings.Repeat("abcde ", 35)
	for i := range n {
		// The multiplier is odd, so that no subject comes twice.
		_, _ = fmt.Fprintf(lines, `{"destination":"d%d","type":"enrolment.changed","subject":"E-%08x","tenant":"t%d","event_version":%d,`+
			`"event_at":"2026-01-31T10:00:00.%06dZ","payload":{"n":%d,"text":%q,"ok":true}}`+"\n",
			i%destinations, uint32(i)*2654435761, i%7, i%9+1, i, i, filler)
	}
	return errors.Join(lines.Flush(), file.Close())
}
