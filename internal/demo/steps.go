package demo

import (
	"context"
	"errors"
	"time"
)

// drain ticks until nothing is open: once, unless the machine was too slow for some
// request.
func (s *story) drain(ctx context.Context, what string) error {
	const most = 20
	for range most {
		if err := s.wait(ctx, what); err != nil {
			return err
		}
		if err := s.stage.shell.run(ctx, "deliver", "--once", "-o", "wide"); err != nil {
			return err
		}
		if err := s.registrar(ctx); err != nil {
			return err
		}
		open, _, err := left(ctx, s.stage.admin)
		if err != nil || open == 0 {
			return err
		}
		s.talk.say("\nSomething is left; cron has another tick.")
		what = "it is due"
	}
	return errors.New("there is always something left to deliver")
}

// wait waits until everything open may be tried, by the database's clock.
func (s *story) wait(ctx context.Context, what string) error {
	for first := true; ; first = false {
		open, d, err := left(ctx, s.stage.admin)
		if err != nil || open == 0 || d < 0 {
			return err
		}
		if first {
			s.talk.put("\n")
		}
		s.talk.countdown(what, d, first)
		timer := time.NewTimer(min(d+time.Millisecond, 100*time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// show asks for what matters here of one delivery.
func (s *story) show(ctx context.Context, subject, jq string) error {
	return s.stage.shell.run(ctx, "show", deliveryID(subject), "--jq", jq)
}

// registrar shows what the receiver answered since it was last looked at.
func (s *story) registrar(ctx context.Context) error {
	all, last, err := seenSince(ctx, s.stage.admin, s.last)
	if err != nil {
		return err
	}
	s.last = last
	for _, a := range all {
		s.talk.aside("registrar  %d %s: %s", a.status, a.result, a.enrolments)
	}
	return s.talk.err
}

// clock is a time of day, in the database's resolution where it matters to people.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000Z") }
