package enqueue

import (
	"context"
	"fmt"
	"hash/maphash"

	"example.com/whctl/internal/work"
)

// A chunk is what one transaction takes at most. Larger ones gain nothing and make
// others wait longer for their keys.
const (
	chunkLines = 5000
	chunkBytes = 4 << 20
)

// chunk is lines made into orders.
type chunk struct {
	orders   []work.Order
	meta     []meta    // of the orders
	problems []Problem // of the other lines
	lines    int64     // all of them, blank ones too
	bytes    int64
	last     int64 // number of the last line
	keys     map[uint64]struct{}
	receipts []work.Receipt // of the orders, once it has been placed
}

// meta is what is known of an order besides its content.
type meta struct {
	line   int64
	isJSON bool // of its payload
}

// meets says whether c and d have a logical key or a delivery id in common (or, once in
// a very long while, seem to).
func (c *chunk) meets(d *chunk) bool {
	if len(c.keys) > len(d.keys) {
		c, d = d, c
	}
	for k := range c.keys {
		if _, both := d.keys[k]; both {
			return true
		}
	}
	return false
}

func (c *chunk) full() bool { return c.lines >= chunkLines || c.bytes >= chunkBytes }

// chunker makes chunks of blocks. A chunk is handed on when it is full, or when there is
// nothing more to read at the moment: a slow input is not held back.
type chunker struct {
	payloadMax int64
	lineMax    int
	chunk      *chunk
	rest       block // lines of a block that did not fit
	seed       maphash.Seed
}

func newChunker(payloadMax int64, lineMax int) *chunker {
	return &chunker{payloadMax: payloadMax, lineMax: lineMax, seed: maphash.MakeSeed()}
}

func newChunk() *chunk { return &chunk{keys: make(map[uint64]struct{})} }

func (k *chunker) run(ctx context.Context, in <-chan block, out chan<- *chunk) {
	defer close(out)
	k.chunk = newChunk()
	for {
		k.fill()
		from, to := in, out
		if k.chunk.full() || len(k.rest.lines) > 0 {
			from = nil
		}
		if k.chunk.lines == 0 {
			to = nil
		}
		if from == nil && to == nil {
			return
		}
		select {
		case b, more := <-from:
			if !more {
				in = nil
			}
			k.rest = b
			continue
		default: // nothing is there right now
		}
		select {
		case b, more := <-from:
			if !more {
				in = nil
			}
			k.rest = b
		case to <- k.chunk:
			k.chunk = newChunk()
		case <-ctx.Done():
			return
		}
	}
}

// fill takes lines into the chunk until it is full.
func (k *chunker) fill() {
	b := &k.rest
	for len(b.lines) > 0 && !k.chunk.full() {
		k.take(b.first, b.data, b.lines[0])
		b.first++
		b.lines = b.lines[1:]
	}
}

func (k *chunker) take(number int64, data []byte, l line) {
	c := k.chunk
	c.lines++
	c.bytes += l.size
	c.last = number
	if l.long {
		c.problems = append(c.problems, Problem{Line: number, Reason: fmt.Sprintf("a line of %d bytes is longer than the %d allowed (by enqueue.payload_max)", l.size, k.lineMax)})
		return
	}
	text := data[l.begin:l.end]
	if skipBlanks(text, 0) == len(text) {
		return
	}
	o, err := Parse(text, k.payloadMax)
	if err != nil {
		c.problems = append(c.problems, Problem{Line: number, Reason: err.Error()})
		return
	}
	c.orders = append(c.orders, o.Order)
	c.meta = append(c.meta, meta{line: number, isJSON: o.IsJSON})
	c.keys[maphash.Comparable(k.seed, [5]string{o.Destination, o.Tenant, o.Subject, o.EventType, o.EventVersion})] = struct{}{}
	if o.OwnID {
		c.keys[maphash.Comparable(k.seed, o.DeliveryID)] = struct{}{}
	}
}
