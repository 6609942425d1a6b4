package archive

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"example.com/whctl/internal/work"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 123456000, time.UTC)

// finished is the n-th of a kind of deliveries as they are most often.
func finished(n int) work.Archived {
	return work.Archived{
		Envelope: work.Envelope{
			DeliveryID: fmt.Sprintf("0199c0de-0000-7000-8000-%012d", n), Destination: "enrolment", Tenant: "acme", Subject: fmt.Sprint("E-", n),
			EventType: "enrolment.changed", EventVersion: "7", EventID: fmt.Sprint("e", n), EventAt: noon, Body: work.BodyEnvelope,
			Payload: fmt.Appendf(nil, `{"n":%d}`, n),
		},
		CreatedAt: noon.Add(time.Second), FinishedAt: noon.Add(time.Minute), State: work.Delivered, Generation: 1, Attempts: 1,
		Class: work.OK, Status: 200,
		History: []work.Attempt{{
			ID: uuid.UUID{1, 2, 15: byte(n)}, Generation: 1, Number: 1, Worker: "worker-1", StartedAt: noon.Add(2 * time.Second),
			FinishedAt: noon.Add(3 * time.Second), Class: work.OK, Status: 200, Latency: 12345 * time.Microsecond,
		}},
	}
}

func batch(from, n int) []work.Archived {
	var rows []work.Archived
	for i := range n {
		rows = append(rows, finished(from+i))
	}
	return rows
}

func newWriter(t testing.TB, dir string) *Writer {
	t.Helper()
	w, err := NewWriter(Run{Dir: dir, Policy: "delivered", Version: 3, Cutoff: noon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func mustAppend(t testing.TB, w *Writer, key string, rows []work.Archived) work.ArchiveMark {
	t.Helper()
	mark, err := w.Append(key, rows)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// archived is the path of a closed archive of three batches, b1 to b3, of 1 to 3 rows.
func archived(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	w := newWriter(t, dir)
	var mark work.ArchiveMark
	for i := 1; i <= 3; i++ {
		mark = mustAppend(t, w, fmt.Sprint("b", i), batch(10*i, i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, mark.File)
}

func verify(t testing.TB, path string) Report {
	t.Helper()
	r, err := Verify(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sound are the keys of the batches that are in order.
func sound(r Report) string {
	var keys []string
	for _, b := range r.Batches {
		if b.Problem == "" {
			keys = append(keys, b.Key)
		}
	}
	return strings.Join(keys, " ")
}

// read is what Read hands out, by batch, with its error.
func read(path string) (map[string][]work.Archived, error) {
	got := map[string][]work.Archived{}
	err := Read(path, func(b Batch, rows []work.Archived) error {
		got[b.Key] = rows
		return nil
	})
	return got, err
}

func same(t testing.TB, got, want []work.Archived) {
	t.Helper()
	// A payload of no bytes, or no history, is nil or not.
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// has says that every one of wants is in one of texts.
func has(t testing.TB, texts []string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(strings.Join(texts, "\n"), want) {
			t.Errorf("%q is not in %q", want, texts)
		}
	}
}

// busy are rows with payloads of 500 bytes that compress as such things do.
func busy(n int) []work.Archived {
	random := rand.New(rand.NewPCG(1, 2))
	rows := batch(0, n)
	for i := range rows {
		id, err := uuid.NewRandomFromReader(bytes.NewReader(binary(random, 16)))
		if err != nil {
			panic(err)
		}
		rows[i].DeliveryID, rows[i].History[0].ID = id.String(), id
		rows[i].EventAt = noon.Add(time.Duration(random.IntN(1e9)) * time.Microsecond)
		var p []byte
		p = fmt.Appendf(p, `{"n":%d,"student":{"name":"`, i)
		for len(p) < 496 {
			p = fmt.Appendf(p, `w%d `, random.IntN(5000))
		}
		rows[i].Payload = append(p[:496], `"}}`...)
	}
	return rows
}

func binary(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}
