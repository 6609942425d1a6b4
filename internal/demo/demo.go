package demo

import (
	"context"
	"errors"
	"fmt"

	"example.com/whctl/internal/console"
)

// Options say how the story is told.
type Options struct {
	Streams *console.Streams
	Binary  string // path of the whctl that is shown
	Keep    bool   // leave everything running until ctx ends
	Quiet   bool   // say nothing
}

// ErrAccounts says that the story did not end as it should.
var ErrAccounts = errors.New("the accounts do not add up")

// Run plays the story on a stage of its own, which is gone when it returns. The end of
// ctx ends it early, with the cause of that.
func Run(ctx context.Context, o Options) (err error) {
	t := newTalk(o.Streams, o.Quiet)
	t.put(t.styled(bold, "whctl demo: twelve enrolments, and a registrar that has a bad day") + "\n")
	t.chapter("The stage")
	t.say("A private Postgres, and a registrar that takes enrolments over HTTPS.\nAll of it is made now and gone at the end.")
	s, err := build(ctx, o, t)
	if err != nil {
		return ended(ctx, err)
	}
	defer func() { err = errors.Join(err, s.strike()) }()
	err = (&story{stage: s, talk: t}).tell(ctx)
	if o.Keep && (err == nil || errors.Is(err, ErrAccounts)) {
		s.keep(ctx, t)
	}
	return ended(ctx, err)
}

// ended is err, or why ctx has ended: whatever failed after that is no news.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrAccounts) {
		return err
	}
	return context.Cause(ctx)
}

// keep leaves everything as it is until ctx ends.
func (s *stage) keep(ctx context.Context, t *talk) {
	t.chapter("Yours, until Ctrl-C")
	t.say("database  %s\nconfig    %s/whctl.yaml\nregistrar %s\n\nIn another terminal:", s.url("whctl"), s.dir, s.receiver.url)
	t.put("\n")
	for _, line := range []string{
		fmt.Sprintf("cd %s && . ./env", s.dir),
		"whctl dlq list",
		"whctl show " + deliveryID(retried),
		`echo '{"course":"BOTANY-2","student":{"birth_date":"2007-01-31"}}' > new.json`,
		"whctl enqueue --destination registrar --type enrolment.created --subject E-13 --payload new.json",
		"whctl deliver --once -o json",
		fmt.Sprintf("psql '%s'", s.url("postgres")),
	} {
		t.more(line)
	}
	if t.err == nil {
		<-ctx.Done()
	}
}
