package cli

import (
	"context"
	"io"
)

// stdin is standard input whose reads end with ctx: nobody may ever write to it.
func (a *app) stdin(ctx context.Context) io.Reader { return &interruptible{ctx: ctx, from: a.io.In} }

// interruptible leaves a read behind that its context has ended; the process ends soon.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	type answer struct {
		b   []byte
		err error
	}
	done := make(chan answer, 1)
	go func() {
		b := make([]byte, len(p)) // not p, which a reader that was given up must not write to
		n, err := r.from.Read(b)
		done <- answer{b[:n], err}
	}()
	select {
	case got := <-done:
		return copy(p, got.b), got.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
