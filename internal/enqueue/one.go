package enqueue

import (
	"context"
	"fmt"

	"example.com/whctl/internal/work"
)

// One enqueues a single order that is complete. The receipt is empty where it was
// rejected; an unknown destination is work.ErrNotFound.
//
// A role that may only call the SQL function does that. The limit of the payload and the
// kind of the body are then what the destination's row says.
func One(ctx context.Context, store Store, order work.Order, o Options) (Summary, work.Receipt, error) {
	may, err := store.MayEnqueue(ctx)
	if err != nil {
		return Summary{}, work.Receipt{}, err
	}
	put := func(orders []work.Order) ([]work.Receipt, error) { return store.Enqueue(ctx, orders) }
	if !may {
		put = func(orders []work.Order) ([]work.Receipt, error) {
			r, err := store.EnqueueByFunction(ctx, orders[0])
			return []work.Receipt{r}, err
		}
	}
	var problems []Problem
	p := placer{store: store, o: o, blind: !may}
	p.o.Problem = func(problem Problem) { problems = append(problems, problem) }
	c := &chunk{orders: []work.Order{order}, meta: []meta{{}}, lines: 1}
	if err := p.place(ctx, c, put); err != nil {
		return Summary{}, work.Receipt{}, err
	}
	p.account(c)
	for _, problem := range problems {
		if problem.Kind == Homeless {
			return Summary{}, work.Receipt{}, fmt.Errorf("%w: %s; make it with: whctl destination apply -f FILE", work.ErrNotFound, problem.Reason)
		}
		if o.Problem != nil {
			o.Problem(problem)
		}
	}
	if p.sum.Rejected > 0 {
		return p.sum, work.Receipt{}, nil
	}
	return p.sum, c.receipts[0], nil
}
