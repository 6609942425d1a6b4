package dlq

import (
	"context"

	"example.com/whctl/internal/work"
)

// Store is the dead letters as this package sees them.
type Store interface {
	// DeadLetters lists at most q.Limit, the oldest death first, the id last.
	DeadLetters(ctx context.Context, q work.LetterQuery) ([]work.Letter, error)
	// CountDeadLetters counts, up to q.Limit.
	CountDeadLetters(ctx context.Context, q work.LetterQuery) (int64, error)
}

const (
	// pageRows is how many rows are read at once, whatever the limit: memory stays flat
	// for whoever writes rows as they come.
	pageRows = 1000
	// MaxCount is up to where rows are counted. Counting more would take longer than the
	// list that it stands under.
	MaxCount = 10_000
)

// Each calls f with the dead letters of q in their order, some at a time, until there
// are none left, q.Limit were seen, or f fails. rest asks for those behind the last one
// that f saw; its limit is 0 when there are none.
func Each(ctx context.Context, s Store, q work.LetterQuery, f func([]work.Letter) error) (rest work.LetterQuery, err error) {
	for left := q.Limit; ; {
		page := q
		page.Limit = min(left, pageRows) + 1 // one more tells whether there are more
		letters, err := s.DeadLetters(ctx, page)
		if err != nil {
			return work.LetterQuery{}, err
		}
		more := len(letters) == page.Limit
		if more {
			letters = letters[:len(letters)-1]
		}
		if err := f(letters); err != nil {
			return work.LetterQuery{}, err
		}
		if !more {
			return work.LetterQuery{}, nil
		}
		last := letters[len(letters)-1]
		q.After = work.LetterPlace{DiedAt: last.DiedAt, DeliveryID: last.DeliveryID}
		if left -= len(letters); left == 0 {
			q.Limit = MaxCount + 1
			return q, nil
		}
	}
}

// Count says how many rest asks for; capped when there are more than that.
func Count(ctx context.Context, s Store, rest work.LetterQuery) (n int64, capped bool, err error) {
	if rest.Limit == 0 {
		return 0, false, nil
	}
	n, err = s.CountDeadLetters(ctx, rest)
	return min(n, MaxCount), n > MaxCount, err
}
