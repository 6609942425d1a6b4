package archive

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"example.com/whctl/internal/work"
)

const inBatch = 1000

func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N)*inBatch/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkEncode compares rows put together by hand with the library's.
func BenchmarkEncode(b *testing.B) {
	rows := busy(inBatch)
	b.Run("hand", func(b *testing.B) {
		var line []byte
		for b.Loop() {
			for i := range rows {
				var err error
				if line, err = appendRow(line[:0], &rows[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perSecond(b)
	})
	b.Run("library", func(b *testing.B) {
		var docs []rowJSON
		for i := range rows {
			doc := documentOf(rows[i])
			docs = append(docs, doc)
		}
		enc := json.NewEncoder(io.Discard)
		for b.Loop() {
			for i := range docs {
				if err := enc.Encode(&docs[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perSecond(b)
	})
}

// documentOf leaves the history as it is, which the library then writes under Go's names.
func documentOf(a work.Archived) rowJSON {
	payload := string(a.Payload)
	return rowJSON{
		DeliveryID: a.DeliveryID, Destination: a.Destination, Tenant: a.Tenant, Subject: a.Subject, EventType: a.EventType,
		EventVersion: a.EventVersion, EventID: a.EventID, EventAt: a.EventAt, NotAfter: a.NotAfter, Body: a.Body, CreatedAt: a.CreatedAt,
		FinishedAt: a.FinishedAt, State: a.State, Generation: a.Generation, Attempts: a.Attempts, Class: a.Class, Status: a.Status,
		Reason: a.Reason, Fingerprint: a.Fingerprint, Payload: &payload, History: a.History,
	}
}

// BenchmarkCompress is encoding and compressing without a disk, by level.
func BenchmarkCompress(b *testing.B) {
	rows := busy(inBatch)
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault} {
		b.Run(level.String(), func(b *testing.B) {
			enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(level), zstd.WithWindowSize(window))
			if err != nil {
				b.Fatal(err)
			}
			var line []byte
			var out counter
			for b.Loop() {
				out = counter{to: io.Discard}
				enc.Reset(&out)
				for i := range rows {
					line, _ = appendRow(line[:0], &rows[i])
					if _, err := enc.Write(line); err != nil {
						b.Fatal(err)
					}
				}
				if err := enc.Close(); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b)
			b.ReportMetric(float64(out.n)/inBatch, "B/row")
		})
	}
}

// BenchmarkAppend is all that a sweep waits for, the disk too.
func BenchmarkAppend(b *testing.B) {
	rows := busy(inBatch)
	w := newWriter(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		mustAppend(b, w, fmt.Sprintf("delivered/3/2026-11-01T00:00:00.000000Z/%d", i), rows)
	}
	perSecond(b)
}

func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	w := newWriter(b, dir)
	mark := mustAppend(b, w, "b", busy(inBatch))
	for b.Loop() {
		if r := verify(b, filepath.Join(dir, mark.File)); !r.OK() {
			b.Fatal(r.Err())
		}
	}
	perSecond(b)
}
