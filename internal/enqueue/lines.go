package enqueue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	// blockBytes is how much is read at a time; a block is handed on earlier where the
	// next read might wait.
	blockBytes = 256 << 10
	// lineSlack is what a line may have beside its payload, which base64 makes a third
	// longer: all texts at their limits, each letter as an escape, and names.
	lineSlack = 32 << 10
	// endMax is what may be around a line: CR and LF, and a byte order mark.
	endMax = 5
)

// lineMax is the longest line that can hold an order.
func lineMax(payloadMax int64) int { return int(payloadMax/3*4) + lineSlack }

// block is some lines, one after the other.
type block struct {
	first int64 // number of the first
	data  []byte
	lines []line
}

// line is data[begin:end] of its block, without its end.
type line struct {
	begin, end int
	size       int64 // in the input, with its end
	long       bool  // longer than a line may be: nothing of it is kept
}

// reader cuts its input into lines. Memory does not grow with them: what is longer than
// max is skipped.
type reader struct {
	in   *bufio.Reader
	max  int
	next int64 // number of the next line
}

func newReader(in io.Reader, max int) *reader {
	return &reader{in: bufio.NewReaderSize(in, blockBytes), max: max, next: 1}
}

// run hands blocks on until the input ends, which is no error.
func (r *reader) run(ctx context.Context, out chan<- block) error {
	defer close(out)
	for {
		b, err := r.block()
		if len(b.lines) > 0 {
			select {
			case out <- b:
			case <-ctx.Done():
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// block reads until there is enough, or the next read might wait.
func (r *reader) block() (block, error) {
	b := block{first: r.next}
	for {
		if err := r.line(&b); err != nil {
			return b, err
		}
		if len(b.data) >= blockBytes || !r.ready() {
			return b, nil
		}
	}
}

// ready says that a whole line has been read already. The rest of half a line may be
// long in coming.
func (r *reader) ready() bool {
	text, _ := r.in.Peek(r.in.Buffered()) // no error: it is there
	return bytes.IndexByte(text, '\n') >= 0
}

// line adds the next line to b. The last line may lack its end.
func (r *reader) line(b *block) error {
	l := line{begin: len(b.data)}
	for {
		part, err := r.in.ReadSlice('\n')
		l.size += int64(len(part))
		if l.long = l.long || l.size > int64(r.max+endMax); !l.long {
			b.data = append(b.data, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err // half a line is none
		case l.size > 0:
			r.finish(b, l)
		}
		return err
	}
}

// finish takes the end off the line that was added last.
func (r *reader) finish(b *block, l line) {
	if r.next == 1 && bytes.HasPrefix(b.data, []byte("\xef\xbb\xbf")) {
		l.begin = 3 // a byte order mark, which is no part of the line
	}
	text := b.data[min(l.begin, len(b.data)):]
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	l.end = l.begin + len(text)
	if l.long = l.long || len(text) > r.max; l.long {
		b.data = b.data[:min(l.begin, len(b.data))]
	}
	b.lines = append(b.lines, l)
	r.next++
}
