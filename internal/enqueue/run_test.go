package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

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
	for subject, kind := range map[string]work.BodyKind{"a": work.BodyEnvelope, "c": work.BodyEnvelope} {
		for key, o := range f.events {
			if key[2] == subject && (o.Body != kind || o.DestinationID != 1) {
				t.Errorf("%s: body %q, destination %d", subject, o.Body, o.DestinationID)
			}
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

// A chunk that fails ends the run; what was committed behind it is counted, and the line
// that is named has nothing missing before it.
func TestALostDatabase(t *testing.T) {
	f := newFake()
	sent := make(chan struct{})
	f.before = func(_ context.Context, n int, _ []work.Order) error {
		switch n {
		case 2:
			<-sent
			return work.ErrUnreachable
		case 3:
			close(sent)
		}
		return nil
	}
	sum, err := Lines(t.Context(), f, strings.NewReader(many(6*chunkLines, "s%d")), Options{PayloadMax: limit})
	if !errors.Is(err, work.ErrUnreachable) {
		t.Fatal(err)
	}
	lost := int64(f.sizes[1])
	var placed int64
	for i, n := range f.sizes {
		if i != 1 {
			placed += int64(n)
		}
	}
	if sum.Enqueued != placed || placed+lost > int64(6*chunkLines) || len(f.sizes) > 4 {
		t.Errorf("counted %d of chunks %v", sum.Enqueued, f.sizes)
	}
	if want := fmt.Sprintf("stopped after line %d; what was enqueued stays", f.sizes[0]); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestAReadErrorKeepsWhatWasRead(t *testing.T) {
	f := newFake()
	broken := errors.New("broken")
	sum, err := Lines(t.Context(), f, io.MultiReader(strings.NewReader(many(3, "s%d")+`{"dest`), iotest.ErrReader(broken)), Options{PayloadMax: limit})
	if !errors.Is(err, broken) {
		t.Errorf("%v, want the reader's error", err)
	}
	count(t, sum, "3 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 3")
}

// A stop lets the chunk in hand be committed and takes no other, though the input has
// not ended and its reader waits.
func TestAStopFinishesTheChunkInHand(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancelCause(t.Context())
	signal := errors.New("told to stop")
	f.before = func(inner context.Context, _ int, _ []work.Order) error {
		cancel(signal)
		return inner.Err()
	}
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	go func() { _, _ = io.WriteString(w, lineOf("a")) }()
	sum, err := Lines(ctx, f, r, Options{PayloadMax: limit})
	if !errors.Is(err, signal) {
		t.Errorf("%v, want the cause", err)
	}
	count(t, sum, "1 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 1")
}

// What is still not committed when the grace is over is broken off.
func TestAStopDoesNotWaitForEver(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancelCause(t.Context())
	signal := errors.New("told to stop")
	f.before = func(inner context.Context, _ int, _ []work.Order) error {
		cancel(signal)
		<-inner.Done() // somebody holds the same key
		return errors.New("canceling statement due to user request")
	}
	sum, err := Lines(ctx, f, strings.NewReader(lineOf("a")), Options{PayloadMax: limit, Grace: 1})
	if !errors.Is(err, signal) || strings.Contains(err.Error(), "canceling") {
		t.Errorf("%v, want the cause", err)
	}
	count(t, sum, "0 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 0")
}

func TestStrictKeepsAllOrNothing(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		kept             int
	}{
		{"all", many(3*chunkLines, "s%d"), fmt.Sprintf("%d enqueued, 0 duplicates, 0 conflicts, 0 rejected to line %d", 3*chunkLines, 3*chunkLines), 3 * chunkLines},
		{"duplicates", many(2, "s%d") + many(2, "s%d"), "2 enqueued, 2 duplicates, 0 conflicts, 0 rejected to line 4", 2},
		{"rejected", many(chunkLines, "s%d") + "x\n" + many(1, "t%d"), fmt.Sprintf("0 enqueued, 0 duplicates, 0 conflicts, 1 rejected to line %d", chunkLines+2), 0},
		{"nothing", "", "0 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 0", 0},
	} {
		f := newFake()
		sum, err := Lines(t.Context(), f, strings.NewReader(c.text), Options{PayloadMax: limit, Strict: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		count(t, sum, c.want)
		if len(f.events) != c.kept {
			t.Errorf("%s: %d events were kept, want %d", c.name, len(f.events), c.kept)
		}
	}
}

func TestStrictWithAFailure(t *testing.T) {
	f := newFake()
	f.before = func(_ context.Context, n int, _ []work.Order) error {
		if n == 2 {
			return work.ErrUnreachable
		}
		return nil
	}
	sum, err := Lines(t.Context(), f, strings.NewReader(many(3*chunkLines, "s%d")), Options{PayloadMax: limit, Strict: true})
	if !errors.Is(err, work.ErrUnreachable) || !strings.HasPrefix(err.Error(), "nothing was kept: ") || sum.Enqueued != 0 || len(f.events) != 0 {
		t.Errorf("%v, %+v, %d kept", err, sum, len(f.events))
	}
}

func order(destination, payload string) work.Order {
	o := work.Order{Destination: destination, EventType: "t", EventVersion: "1", Payload: []byte(payload)}
	if err := Complete(&o, limit); err != nil {
		panic(err)
	}
	return o
}

func TestOne(t *testing.T) {
	for _, limited := range []bool{false, true} {
		f := newFake()
		f.limited = limited
		o := order("r", "{}")
		other := order("r", "[]")
		for i, c := range []struct {
			order    work.Order
			want     string
			id       string
			reported int
		}{
			{o, "1 enqueued, 0 duplicates, 0 conflicts, 0 rejected to line 0", o.DeliveryID, 0},
			{order("r", "{}"), "0 enqueued, 1 duplicates, 0 conflicts, 0 rejected to line 0", o.DeliveryID, 0},
			{other, "0 enqueued, 0 duplicates, 1 conflicts, 0 rejected to line 0", o.DeliveryID, 1},
		} {
			var found problems
			sum, receipt, err := One(t.Context(), f, c.order, Options{PayloadMax: limit, Problem: found.add})
			if err != nil || receipt.DeliveryID != c.id || len(found) != c.reported {
				t.Errorf("limited %v, %d: %+v, %v, reported %q", limited, i, receipt, err, found)
			}
			count(t, sum, c.want)
		}
		if _, _, err := One(t.Context(), f, order("nowhere", "{}"), Options{PayloadMax: limit}); !errors.Is(err, work.ErrNotFound) {
			t.Errorf("limited %v: unknown destination: %v", limited, err)
		}
	}
}

func TestOneThatIsRejected(t *testing.T) {
	f := newFake()
	var found problems
	o := Options{PayloadMax: limit, Problem: found.add, Body: func(string) work.BodyKind { return work.BodyEnvelope }}
	sum, receipt, err := One(t.Context(), f, order("r", "{"), o)
	if err != nil || receipt != (work.Receipt{}) || len(found) != 1 {
		t.Errorf("%+v, %v, %q", receipt, err, found)
	}
	count(t, sum, "0 enqueued, 0 duplicates, 0 conflicts, 1 rejected to line 0")
	f.limited = true // the function refuses it
	sum, receipt, err = One(t.Context(), f, order("r", strings.Repeat("x", 101)), o)
	if err != nil || receipt != (work.Receipt{}) || len(found) != 2 {
		t.Errorf("%+v, %v, %q", receipt, err, found)
	}
	count(t, sum, "0 enqueued, 0 duplicates, 0 conflicts, 1 rejected to line 0")
}
