package enqueue

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

func TestWhatBecomesOfLines(t *testing.T) {
	f := newFake()
	text := lineOf("a") + "\n" + lineOf("a") +
		`{"destination":"r","type":"t","subject":"b","event_version":1,"payload":1}` + "\r\n" +
		`{"destination":"r","type":"t","subject":"b","event_version":1,"payload":2}` + "\n" +
		`{"destination":"nowhere","type":"t","payload":1}` + "\n" +
		`{"destination":"r","type":"t","payload_base64":"AA=="}` + "\n" +
		`{"destination":"raw","type":"t","payload_base64":"AA=="}` + "\n" +
		`{"destination":"r","type":"t","subject":"c","payload_base64":"W10="}` + "\n" +
		"{\n" + lineOf("d") + `{"destination":"r","type":"t","subject":"e","delivery_id":"x","payload":1}` + "\n" +
		`{"destination":"r","type":"t","subject":"f","delivery_id":"x","payload":1}`
	var found problems
	sum, err := Lines(t.Context(), f, strings.NewReader(text), Options{
		PayloadMax: limit, Problem: found.add,
		Body: func(policy string) work.BodyKind {
			return map[string]work.BodyKind{"default": work.BodyEnvelope}[policy]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	count(t, sum, "6 enqueued, 1 duplicates, 2 conflicts, 3 rejected to line 13")
	id := f.events[[5]string{"r", "", "b", "t", "1"}].DeliveryID
	want := []string{
		"5:2:this event was enqueued before with another payload, as delivery " + id,
		`6:1:unknown destination "nowhere"`,
		"7:0:the payload is not JSON, and the body of destination r is an envelope",
		"10:0:not valid JSON: it ends too early",
		"13:2:delivery_id x belongs to another event",
	}
	if !slices.Equal(found, want) {
		t.Errorf("reported\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	for _, o := range f.events {
		want := map[string]work.Destination{"r": {ID: 1, Body: work.BodyEnvelope}, "raw": {ID: 2, Body: work.BodyRaw}}[o.Destination]
		if o.Body != want.Body || o.DestinationID != want.ID {
			t.Errorf("%s: body %q, row %d", o.Destination, o.Body, o.DestinationID)
		}
	}
}

// A policy that is not configured here may be where the worker runs.
func TestAnUnknownPolicyLeavesTheBodyOpen(t *testing.T) {
	f := newFake()
	line := `{"destination":"r","type":"t","payload_base64":"AA=="}`
	sum, err := Lines(t.Context(), f, strings.NewReader(line), Options{PayloadMax: limit, Body: func(string) work.BodyKind { return work.BodyUnset }})
	if err != nil {
		t.Fatal(err)
	}
	count(t, sum, "1 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 1")
}

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(lineOf(fmt.Sprintf(format, i)))
	}
	return b.String()
}

func TestChunksAreBounded(t *testing.T) {
	f := newFake()
	const n = 3*chunkLines + 17
	var lines, size int64
	text := many(n, "s%d")
	sum, err := Lines(t.Context(), f, strings.NewReader(text), Options{PayloadMax: limit, Progress: func(l, b int64) { lines, size = lines+l, size+b }})
	if err != nil {
		t.Fatal(err)
	}
	count(t, sum, fmt.Sprintf("%d enqueued, 0 duplicates, 0 conflicts, 0 rejected to line %d", n, n))
	if top := slices.Max(f.sizes); top > chunkLines {
		t.Errorf("a chunk of %d lines", top)
	}
	if lines != n || size != int64(len(text)) {
		t.Errorf("progress told of %d lines and %d bytes, want %d and %d", lines, size, n, len(text))
	}
	f = newFake()
	big := `{"destination":"raw","type":"t","subject":"%d","payload":"` + strings.Repeat("x", 1<<20) + `"}` + "\n"
	var in strings.Builder
	for i := range 9 {
		fmt.Fprintf(&in, big, i)
	}
	if _, err := Lines(t.Context(), f, strings.NewReader(in.String()), Options{PayloadMax: 2 << 20}); err != nil {
		t.Fatal(err)
	}
	if top := slices.Max(f.sizes); top > 5 {
		t.Errorf("a chunk of %d MiB", top)
	}
}

// counting tells how much was read.
type counting struct {
	io.Reader
	n atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// However slow the database is, no more than a few chunks are in memory.
func TestReadingWaitsForTheDatabase(t *testing.T) {
	f := newFake()
	in := &counting{Reader: strings.NewReader(many(14*chunkLines, "s%d"))}
	full := in.Reader.(*strings.Reader).Size()
	var most int64
	f.before = func(_ context.Context, n int, _ []work.Order) error {
		if n <= 4 { // nothing else has been taken by now than the first chunks
			most = max(most, in.n.Load())
		}
		return nil
	}
	if _, err := Lines(t.Context(), f, in, Options{PayloadMax: limit}); err != nil {
		t.Fatal(err)
	}
	if bound := int64(8 * chunkLines * len(lineOf("s100000"))); most > bound || most == full {
		t.Errorf("%d bytes of %d had been read with the fourth chunk, want %d at most", most, full, bound)
	}
}

// An event is not kept waiting until others fill its chunk.
func TestASlowInputIsNotHeldBack(t *testing.T) {
	f := newFake()
	got := make(chan int)
	f.before = func(_ context.Context, _ int, orders []work.Order) error { got <- len(orders); return nil }
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := Lines(t.Context(), f, r, Options{PayloadMax: limit})
		done <- err
	}()
	for i := range 3 {
		line := lineOf(fmt.Sprint(i)) + lineOf(fmt.Sprint(i + 1))[:20] // half of the next one is no reason to wait either
		if i > 0 {
			line = line[20:]
		}
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
		if n := testbed.Await(t, "the line", got); n != 1 {
			t.Errorf("%d lines came", n)
		}
	}
	_ = w.Close()
	if err := testbed.Await(t, "the end", done); err != nil { // the half line is told, and no failure
		t.Error(err)
	}
}

// Two chunks are on their way at once, and yet what is told is in the order of lines.
func TestChunksOverlapAndAreToldInOrder(t *testing.T) {
	f := newFake()
	first, second := make(chan struct{}), make(chan struct{})
	f.before = func(_ context.Context, n int, _ []work.Order) error {
		switch n {
		case 1:
			close(first)
			<-second // it cannot end before the second one begins
		case 2:
			<-first
			close(second)
		}
		return nil
	}
	var found problems
	text := strings.Repeat("x\n", 10) + many(2*chunkLines, "s%d") + "y\n"
	sum, err := Lines(t.Context(), f, strings.NewReader(text), Options{PayloadMax: limit, Problem: found.add})
	if err != nil {
		t.Fatal(err)
	}
	count(t, sum, fmt.Sprintf("%d enqueued, 0 duplicates, 0 conflicts, 11 rejected to line %d", 2*chunkLines, 2*chunkLines+11))
	for i, p := range found[:10] {
		if !strings.HasPrefix(p, fmt.Sprintf("%d:", i+1)) {
			t.Errorf("problem %d is %s", i+1, p)
		}
	}
}

func TestWhetherChunksMeet(t *testing.T) {
	k := newChunker(limit, limit)
	of := func(members string) *chunk {
		k.chunk = newChunk()
		text := []byte(`{"destination":"r","type":"t","payload":1,` + members + `}`)
		k.take(1, text, line{end: len(text)})
		if len(k.chunk.problems) > 0 {
			t.Fatal(k.chunk.problems)
		}
		return k.chunk
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`"subject":"a"`, `"subject":"a"`, true},
		{`"subject":"a"`, `"subject":"b"`, false},
		{`"subject":"a"`, `"subject":"a","tenant":"x"`, false},
		{`"subject":"a"`, `"subject":"a","event_version":1`, false},
		{`"subject":"a","delivery_id":"x"`, `"subject":"b","delivery_id":"x"`, true},
		{`"subject":"a","delivery_id":"x"`, `"subject":"b","delivery_id":"y"`, false},
		{`"subject":"ab","tenant":"c"`, `"subject":"a","tenant":"bc"`, false},
	} {
		a, b := of(c.a), of(c.b)
		if a.meets(b) != c.want || b.meets(a) != c.want {
			t.Errorf("%s and %s: %v, want %v", c.a, c.b, a.meets(b), c.want)
		}
	}
}

// Chunks with an event in common go one after the other: the first line wins.
func TestChunksThatMeetGoOneAfterTheOther(t *testing.T) {
	for _, c := range []struct{ name, first, second string }{
		{"event", `"subject":"same","event_version":1`, `"subject":"same","event_version":1`},
		{"delivery id", `"subject":"a","delivery_id":"same"`, `"subject":"b","delivery_id":"same"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &meeting{fakeStore: newFake(), t: t}
			line := `{"destination":"r","type":"t",%s,"payload":%d}` + "\n"
			var text strings.Builder
			for i := range 6 {
				fmt.Fprintf(&text, line, map[bool]string{true: c.first, false: c.second}[i == 0], i)
				text.WriteString(many(chunkLines-1, fmt.Sprintf("c%d-%%d", i)))
			}
			var found problems
			_, err := Lines(t.Context(), f, strings.NewReader(text.String()), Options{PayloadMax: limit, Problem: found.add})
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range found {
				if !strings.HasPrefix(p, fmt.Sprintf("%d:2:", (i+1)*chunkLines+1)) {
					t.Errorf("problem %s", p)
				}
			}
			if len(found) != 5 {
				t.Errorf("%d conflicts, want 5: the first line wins", len(found))
			}
		})
	}
}

// meeting fails the test when two chunks with the event or the id in common are on their
// way at once.
type meeting struct {
	*fakeStore
	t    *testing.T
	busy atomic.Int32
}

func (m *meeting) Enqueue(ctx context.Context, orders []work.Order) ([]work.Receipt, error) {
	if slices.ContainsFunc(orders, func(o work.Order) bool { return o.Subject == "same" || o.DeliveryID == "same" }) {
		if m.busy.Add(1) > 1 {
			m.t.Error("two at once")
		}
		defer m.busy.Add(-1)
	}
	return m.fakeStore.Enqueue(ctx, orders)
}

// One line that the database refuses does not keep out the others of its chunk.
func TestRefusedContentIsSearchedFor(t *testing.T) {
	f := newFake()
	f.before = func(_ context.Context, _ int, orders []work.Order) error {
		for _, o := range orders {
			if strings.HasPrefix(o.Subject, "bad") {
				return fmt.Errorf("%w: no such letter", work.ErrData)
			}
		}
		return nil
	}
	var found problems
	text := many(50, "a%d") + lineOf("bad1") + many(50, "b%d") + lineOf("bad2")
	sum, err := Lines(t.Context(), f, strings.NewReader(text), Options{PayloadMax: limit, Problem: found.add})
	if err != nil {
		t.Fatal(err)
	}
	count(t, sum, "100 enqueued, 0 duplicates, 0 conflicts, 2 rejected to line 102")
	if want := []string{"51:0:refused by the database: no such letter", "102:0:refused by the database: no such letter"}; !slices.Equal(found, want) {
		t.Errorf("reported %q", found)
	}
}
