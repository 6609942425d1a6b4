package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/whctl/internal/work"
)

// put stores orders, as Store.Enqueue does.
type put func(orders []work.Order) ([]work.Receipt, error)

// placer brings chunks to the store and counts what became of their lines.
type placer struct {
	store Store
	o     Options
	sum   Summary
	blind bool // the role cannot read destinations; what it calls does
}

// place stores a chunk. Several may be placed at the same time: it changes nothing but
// the chunk, which has a receipt for each of its orders then.
func (p *placer) place(ctx context.Context, c *chunk, put put) error {
	if !p.blind {
		if err := p.address(ctx, c); err != nil {
			return err
		}
	}
	receipts, err := p.search(c, 0, len(c.orders), put)
	if err != nil {
		return err
	}
	c.receipts = receipts
	return nil
}

// account counts the lines of a chunk that was placed, and reports those that were not
// taken.
func (p *placer) account(c *chunk) {
	for i, r := range c.receipts {
		p.count(c, i, r)
	}
	slices.SortFunc(c.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	for _, problem := range c.problems {
		if problem.Kind == Conflicts {
			p.sum.Conflicts++
		} else {
			p.sum.Rejected++
		}
		if p.o.Problem != nil {
			p.o.Problem(problem)
		}
	}
	p.sum.Lines = c.last
	if p.o.Progress != nil {
		p.o.Progress(c.lines, c.bytes)
	}
}

// address finds the destinations of a chunk's orders and fixes the kind of body, which
// says whether the payload must be JSON. Orders that cannot go anywhere leave the chunk.
func (p *placer) address(ctx context.Context, c *chunk) error {
	known := make(map[string]work.Destination)
	var names []string
	for i := range c.orders {
		name := c.orders[i].Destination
		if _, seen := known[name]; !seen {
			known[name] = work.Destination{}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := p.store.NamedDestinations(ctx, names)
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.Body == work.BodyUnset && p.o.Body != nil {
			d.Body = p.o.Body(d.Policy)
		}
		known[d.Name] = d
	}
	kept := 0
	for i, o := range c.orders {
		d := known[o.Destination]
		switch {
		case d.ID == 0:
			c.refuse(i, Homeless, unknownDestination(o.Destination))
			continue
		case d.Body == work.BodyEnvelope && !c.meta[i].isJSON && !isJSON(o.Payload):
			c.refuse(i, Rejected, fmt.Sprintf("the payload is not JSON, and the body of destination %s is an envelope", d.Name))
			continue
		}
		o.DestinationID, o.Body = d.ID, d.Body
		c.orders[kept], c.meta[kept] = o, c.meta[i]
		kept++
	}
	c.orders, c.meta = c.orders[:kept], c.meta[:kept]
	return nil
}

func (c *chunk) refuse(i int, kind Kind, reason string) {
	c.problems = append(c.problems, Problem{Line: c.meta[i].line, Kind: kind, Reason: reason})
}

func unknownDestination(name string) string { return fmt.Sprintf("unknown destination %q", name) }

// search stores the orders from one place to another. What the database refuses by its
// content is searched for by halves, so that one such line does not keep out the others;
// it gets no receipt. (Inside of a larger transaction there is nothing to search: that
// transaction is lost.)
func (p *placer) search(c *chunk, from, to int, put put) ([]work.Receipt, error) {
	if from == to {
		return nil, nil
	}
	receipts, err := put(c.orders[from:to])
	if err == nil || p.o.Strict || !errors.Is(err, work.ErrData) {
		return receipts, err
	}
	if to-from == 1 {
		c.refuse(from, Rejected, err.Error())
		return []work.Receipt{{}}, nil
	}
	middle := (from + to) / 2
	first, err := p.search(c, from, middle, put)
	if err != nil {
		return nil, err
	}
	second, err := p.search(c, middle, to, put)
	return append(first, second...), err
}

func (p *placer) count(c *chunk, i int, r work.Receipt) {
	switch r.Result {
	case work.Enqueued:
		p.sum.Enqueued++
	case work.Duplicate:
		p.sum.Duplicates++
	case work.Conflict:
		c.refuse(i, Conflicts, conflict(r))
	case work.UnknownDestination:
		c.refuse(i, Homeless, unknownDestination(c.orders[i].Destination))
	case work.Expired:
		c.refuse(i, Rejected, "not_after has passed, or lies before the due time: it could never be sent")
	}
}

func conflict(r work.Receipt) string {
	if r.Taken {
		return fmt.Sprintf("delivery_id %s belongs to another event", r.DeliveryID)
	}
	return fmt.Sprintf("this event was enqueued before with another payload, as delivery %s", r.DeliveryID)
}
