package cli

import (
	"context"
	"io"
	"os"
	"time"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/enqueue"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// instants reads the times among the flags.
func (o *enqueueOptions) instants() error {
	for _, f := range []struct {
		flag, text string
		to         **time.Time
	}{
		{"event-at", o.times.eventAt, &o.order.EventAt},
		{"not-before", o.times.notBefore, &o.order.NotBefore},
		{"not-after", o.times.notAfter, &o.order.NotAfter},
	} {
		if f.text == "" {
			continue
		}
		t, err := enqueue.Instant(f.text)
		if err != nil {
			return usage("--%s: %v", f.flag, err)
		}
		*f.to = t
	}
	return nil
}

func runEnqueueOne(ctx context.Context, a *app, o enqueueOptions) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	if o.order.Payload, err = a.readPayload(ctx, o.payload, c.Enqueue.PayloadMax); err != nil {
		return err
	}
	if n := int64(len(o.order.Payload)); n > c.Enqueue.PayloadMax {
		a.warn("rejected: the payload is larger than the %d bytes allowed (enqueue.payload_max)", c.Enqueue.PayloadMax)
		return a.printOne(format, enqueuedOne{Summary: enqueue.Summary{Rejected: 1}})
	}
	if err := enqueue.Complete(&o.order, c.Enqueue.PayloadMax); err != nil {
		return usage("%v", err)
	}
	return a.withStore(ctx, func(c *config.Config, s *pgstore.Store) error {
		uc := a.enqueueCase(c)
		uc.Problem = func(p enqueue.Problem) {
			word := "rejected"
			if p.Kind == enqueue.Conflicts {
				word = "conflict"
			}
			a.warn("%s: %s", word, p.Reason)
		}
		sum, receipt, err := enqueue.One(ctx, s, o.order, uc)
		if err != nil {
			return err
		}
		return a.printOne(format, enqueuedOne{sum, receipt})
	})
}

// readPayload reads one byte more than the limit at most, so that too much is noticed.
func (a *app) readPayload(ctx context.Context, name string, limit int64) ([]byte, error) {
	in := a.stdin(ctx)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("--payload: %v", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, usage("--payload %s: %v", name, err)
	}
	return b, nil
}

// enqueuedOne is what became of one delivery.
type enqueuedOne struct {
	enqueue.Summary
	work.Receipt
}

// enqueuedOneJSON is the contract of it: delivery_id is null where it was rejected.
type enqueuedOneJSON struct {
	enqueuedJSON
	DeliveryID *string `json:"delivery_id"`
	Result     string  `json:"result"`
}

func (e enqueuedOne) result() string {
	if e.Rejected > 0 {
		return "rejected"
	}
	return string(e.Result)
}

func (a *app) printOne(format render.Options, e enqueuedOne) error {
	view := render.View[enqueuedOne]{
		Columns: []render.Column[enqueuedOne]{
			{Header: "DELIVERY ID", Value: func(e enqueuedOne) string { return e.DeliveryID }},
			{Header: "RESULT", Value: func(e enqueuedOne) string { return e.result() }},
		},
		JSON: func(e enqueuedOne) any {
			return enqueuedOneJSON{enqueuedDocument(e.Summary), orNull(e.DeliveryID), e.result()}
		},
		Name: func(e enqueuedOne) string { return e.DeliveryID },
	}
	if !e.Clean() || !a.global.quiet {
		if err := render.One(a.io.Out, format, view, e); err != nil {
			return err
		}
	}
	if !e.Clean() {
		return silent(exitFailed)
	}
	return nil
}
