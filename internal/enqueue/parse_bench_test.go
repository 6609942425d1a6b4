package enqueue

import (
	"strings"
	"testing"
)

// BenchmarkParse is the work on one line, of the same kind as those of the benchmark of
// the whole command.
func BenchmarkParse(b *testing.B) {
	line := []byte(`{"destination":"d42","type":"enrolment.changed","subject":"E-9e3779b1","tenant":"t3","event_version":7,` +
		`"event_at":"2026-01-31T10:00:00.123456Z","payload":{"n":42,"text":"` + strings.Repeat("abcde ", 35) + `","ok":true}}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line, 256<<10); err != nil {
			b.Fatal(err)
		}
	}
}
