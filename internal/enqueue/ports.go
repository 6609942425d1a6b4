package enqueue

import (
	"context"
	"time"

	"example.com/whctl/internal/work"
)

// Store is the work table.
type Store interface {
	// NamedDestinations finds destinations; names that nobody has are left out.
	NamedDestinations(ctx context.Context, names []string) ([]work.Destination, error)
	// Enqueue puts orders in, in one transaction, with a receipt for each. An error that
	// wraps work.ErrData is about the content of one of them.
	Enqueue(ctx context.Context, orders []work.Order) ([]work.Receipt, error)
	// EnqueueAll runs f in one transaction, in which put is Enqueue, and keeps it only
	// where f says so.
	EnqueueAll(ctx context.Context, f func(put func([]work.Order) ([]work.Receipt, error)) (bool, error)) error
	// MayEnqueue says whether the role may do the above at all.
	MayEnqueue(ctx context.Context) (bool, error)
	// EnqueueByFunction puts one order in through the SQL function, for roles that may do
	// no more.
	EnqueueByFunction(ctx context.Context, o work.Order) (work.Receipt, error)
}

// DefaultGrace is how long a stop waits for the chunk that the database works on.
const DefaultGrace = 5 * time.Second

// Options say what is taken and whom to tell.
type Options struct {
	PayloadMax int64 // bytes
	Strict     bool  // all lines or none
	// Body is the kind of body by the configured policy, for destinations whose row does
	// not say; work.BodyUnset where there is no such policy.
	Body     func(policy string) work.BodyKind
	Problem  func(Problem)            // called for each line that was not taken, in order
	Progress func(lines, bytes int64) // called after each chunk with what it dealt with
	Grace    time.Duration            // DefaultGrace where 0
}

// Problem is a line that was not taken.
type Problem struct {
	Line   int64 // counted from 1
	Kind   Kind
	Reason string
}

// Kind says what is wrong with a line.
type Kind int

// The kinds of problems.
const (
	Rejected  Kind = iota // it cannot be enqueued as it is
	Homeless              // rejected: its destination is unknown
	Conflicts             // it contradicts what was enqueued before
)

// Summary counts lines, blank ones apart.
type Summary struct {
	Enqueued   int64
	Duplicates int64
	Conflicts  int64
	Rejected   int64
	Lines      int64 // number of the last line that was dealt with
}

// Clean says that every line was taken, or had been before.
func (s Summary) Clean() bool { return s.Conflicts == 0 && s.Rejected == 0 }
