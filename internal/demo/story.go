package demo

import (
	"context"
	"fmt"
	"strings"
)

// story plays what happens, chapter by chapter. What it says about the outcome it has
// asked the receiver's log and whctl's views for.
type story struct {
	stage *stage
	talk  *talk
	last  int64 // of the receiver's log that has been shown
}

// tell plays the whole story. A machine that is too slow for it, so that a request times
// out, makes it longer by some ticks; it ends the same.
func (s *story) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		s.install, s.enqueue, s.twoTicks, s.retry, s.kill, s.recover, s.letters, s.accounts,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
		if s.talk.err != nil {
			return s.talk.err
		}
	}
	return nil
}

func (s *story) install(ctx context.Context) error {
	sh := s.stage.shell
	if err := sh.show("whctl.yaml"); err != nil {
		return err
	}
	if err := sh.run(ctx, "migrate", "up"); err != nil {
		return err
	}
	return sh.run(ctx, "destination", "apply", "-f", "destinations.yaml")
}

// enqueue puts all but the last enrolment in.
func (s *story) enqueue(ctx context.Context) error {
	s.talk.chapter("Eleven students have enrolled since 10:00:00Z")
	all := events()
	if err := s.export(all[:len(all)-1]); err != nil {
		return err
	}
	if err := s.stage.shell.head("events.jsonl"); err != nil {
		return err
	}
	return s.stage.shell.run(ctx, "enqueue", "--file", "events.jsonl")
}

func (s *story) export(events []event) error {
	text, err := jsonl(events)
	if err != nil {
		return err
	}
	return s.stage.write("events.jsonl", string(text))
}

func (s *story) twoTicks(ctx context.Context) error {
	s.talk.chapter("Cron fires twice at the same moment")
	tick := func(worker string) []string {
		return []string{"deliver", "--once", "--max-time", tickTime, "--worker-id", worker}
	}
	if err := s.stage.shell.both(ctx, tick("tick-a"), tick("tick-b")); err != nil {
		return err
	}
	if err := s.registrar(ctx); err != nil {
		return err
	}
	n, err := shared(ctx, s.stage.admin, "tick-a", "tick-b")
	if err != nil {
		return err
	}
	s.talk.say("%d attempts for %d deliveries, %d by tick-a and %d by tick-b.", n.all, n.deliveries, n.first, n.second)
	if n.all == n.deliveries {
		s.talk.say("Nothing was sent twice.")
	}
	return nil
}

// retry waits for the times that the policy computed after the two 503, and ticks.
func (s *story) retry(ctx context.Context) error {
	s.talk.chapter("A 503 comes back at its computed time")
	if err := s.show(ctx, retried, "{state, class, status, next_attempt_at}"); err != nil {
		return err
	}
	computed, err := retries(ctx, s.stage.admin)
	if err != nil {
		return err
	}
	if len(computed) > 0 {
		s.talk.say("\nThe policy put back: %s.\nNothing sleeps on that; the next tick of cron finds what is due.", strings.Join(names(computed), ", "))
	}
	if err := s.wait(ctx, "they are due"); err != nil {
		return err
	}
	if err := s.stage.shell.run(ctx, "deliver", "--once"); err != nil {
		return err
	}
	if err := s.registrar(ctx); err != nil {
		return err
	}
	return s.punctual(ctx, computed)
}

func names(computed []due) []string {
	var all []string
	for _, d := range computed {
		all = append(all, fmt.Sprintf("%s at %s", d.subject, clock(d.at)))
	}
	return all
}

// punctual tells when the second attempts started, beside when they were due.
func (s *story) punctual(ctx context.Context, computed []due) error {
	for _, d := range computed {
		at, err := started(ctx, s.stage.admin, deliveryID(d.subject))
		if err != nil {
			return err
		}
		s.talk.say("%s was due at %s and sent at %s.", d.subject, clock(d.at), clock(at))
	}
	return nil
}

// kill has the export run again with the last enrolment in it, and kills the worker that
// sends it between the receiver's commit and its answer.
func (s *story) kill(ctx context.Context) error {
	s.talk.chapter("10:00:11Z: one more student, and a worker that dies")
	s.talk.say("The export runs again over the whole day. What is known is known.")
	if err := s.export(events()); err != nil {
		return err
	}
	if err := s.stage.shell.run(ctx, "enqueue", "--file", "events.jsonl"); err != nil {
		return err
	}
	for range 3 {
		killed, err := s.killOne(ctx)
		if err != nil || killed {
			return err
		}
	}
	return fmt.Errorf("three ticks did not send %s", orphaned)
}

// killOne starts a tick and kills it once the receiver has committed. False: the tick
// ended before, without having sent the enrolment.
func (s *story) killOne(ctx context.Context) (bool, error) {
	args := []string{"deliver", "--once"}
	s.talk.prompt(line(args) + " &")
	c, err := s.stage.shell.start(ctx, args...)
	if err != nil {
		return false, err
	}
	s.talk.output(fmt.Sprintf("[1] %d", c.cmd.Process.Pid))
	select {
	case <-c.done:
		return false, s.stage.shell.finish(ctx, c, args)
	case <-s.stage.receiver.committed:
	}
	if err := s.registrar(ctx); err != nil {
		c.kill()
		return false, err
	}
	s.talk.say("The registrar has committed; its answer is still to come.")
	s.talk.prompt(fmt.Sprintf("kill -9 %d", c.cmd.Process.Pid))
	c.kill()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.talk.output("[1]+  Killed")
	s.talk.say("\nNobody is left to record the answer. The lease stays in the row:")
	return true, s.show(ctx, orphaned, "{state, lease_holder, lease_expires_at}")
}

// recover ticks when the lease has run out.
func (s *story) recover(ctx context.Context) error {
	s.talk.chapter("The lease runs out, the next tick cleans up")
	s.talk.say("What became of that attempt is unknown, so it counts as lost, and %s is\nsent again under the same key.", orphaned)
	if err := s.drain(ctx, "the lease runs out"); err != nil {
		return err
	}
	return s.show(ctx, orphaned, ".attempts[] | {attempt, class, status, message}")
}

func (s *story) letters(ctx context.Context) error {
	s.talk.chapter("What is left for a person")
	s.talk.say("%s can never be delivered as it is. It died at its first 400, evidence kept.", malformed)
	if err := s.stage.shell.run(ctx, "dlq", "list"); err != nil {
		return err
	}
	return s.stage.shell.run(ctx, "show", deliveryID(malformed))
}

// accounts settles the accounts and prints the last line.
func (s *story) accounts(ctx context.Context) error {
	s.talk.chapter("The accounts, from both sides")
	results, err := audit(ctx, s.stage.admin, events())
	if err != nil {
		return err
	}
	failed := 0
	for _, a := range results {
		s.talk.verdict(a)
		if len(a.broken) > 0 {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%w: %d of %d checks failed", ErrAccounts, failed, len(results))
	}
	s.talk.put(fmt.Sprintf("\n%s\n", s.talk.styled(bold, fmt.Sprintf(
		"%d delivered, %d dead, no state change applied twice, every attempt accounted for", wantDelivered, wantDead))))
	return nil
}
