package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
)

const (
	// maxSaid bounds how many texts a session remembers, prepared or not.
	maxSaid = 64
	// planAge is how old a prepared statement gets. The server keeps one plan for all its
	// uses, made for the table as it was: one made for an empty table would read a full
	// one from end to end until the server has counted its rows again.
	planAge = 10 * time.Second
)

// plans says whether statements are prepared: no more, once the server or whatever stands
// before it has taken exception to one.
type plans struct{ off atomic.Bool }

// errPrepared is an error of having prepared. The transaction is run again, with its
// statements as text.
var errPrepared = errors.New("a prepared statement was refused")

// doubt turns preparing off after an error that only comes of it: the statement is
// missing (26000), another one has its name (42P05), something does not speak this part
// of the protocol (08P01), its result has changed its form since (0A000).
func (p *plans) doubt(err error) error {
	if pq.As(err, "26000", "42P05", "08P01", "0A000") == nil {
		return err
	}
	p.off.Store(true)
	return fmt.Errorf("%w: %w", errPrepared, err)
}

// conversation is a statement of the driver.
type conversation interface {
	driver.Stmt
	driver.StmtQueryContext
	driver.StmtExecContext
}

// statement is a text that was said in a session; the first time it is not prepared.
type statement struct {
	conversation // nil: not prepared
	made         time.Time
}

// prepared is the statement for query, nil where it is to be sent as text. Without
// arguments there is little to gain, and a text may be of several statements.
func (c *session) prepared(ctx context.Context, query string, args []driver.NamedValue) (*statement, error) {
	if !c.direct || len(args) == 0 || c.plans.off.Load() {
		return nil, nil
	}
	s := c.said[query]
	switch {
	case s == nil:
		if c.said == nil {
			c.said = make(map[string]*statement)
		}
		if len(c.said) < maxSaid {
			c.said[query] = &statement{}
		}
		return nil, nil
	case s.conversation != nil && time.Since(s.made) < planAge:
		return s, nil
	}
	return s, c.plans.doubt(s.prepare(ctx, c, query))
}

// prepare makes the statement anew.
func (s *statement) prepare(ctx context.Context, c *session, query string) error {
	if s.conversation != nil {
		old := s.conversation
		s.conversation = nil
		if err := old.Close(); err != nil {
			return err
		}
	}
	made, err := c.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	s.conversation, _ = made.(conversation)
	if s.conversation == nil {
		return fmt.Errorf("prepare: the driver's statement is a %T", made)
	}
	s.made = time.Now()
	return nil
}
