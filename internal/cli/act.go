package cli

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// actor is who does something that goes on record, and why.
type actor struct {
	reason   string
	operator string
}

// check refuses what cannot go on record, and finds out who acts. given says that an
// operator was named by the flag.
func (o *actor) check(a *app, command string, given bool) error {
	if strings.TrimSpace(o.reason) == "" {
		return usage("%s needs a --reason that says something", command)
	}
	if given && strings.TrimSpace(o.operator) == "" {
		return usage("--operator is blank")
	}
	o.operator = strings.TrimSpace(a.operator(o.operator))
	if !utf8.ValidString(o.reason) || !utf8.ValidString(o.operator) {
		return usage("--reason and --operator want text in UTF-8")
	}
	return nil
}

// actOnEach does the same with each of the names, one after the other, and shows what
// became of them. One that is refused or not there does not keep the next from its turn;
// another error ends it.
func actOnEach[T any](ctx context.Context, a *app, names []string, view render.View[T], act func(s *pgstore.Store, name string) (T, error)) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		var done []T
		var refusals []error
		for _, name := range names {
			one, err := act(s, name)
			if err != nil {
				refusals = append(refusals, err)
			}
			if err != nil && !errors.Is(err, work.ErrRefused) && !errors.Is(err, work.ErrNotFound) {
				break
			}
			done = append(done, one)
		}
		if !a.global.quiet {
			if err := view.Write(a.io.Out, format, done); err != nil {
				return err
			}
		}
		return errors.Join(refusals...)
	})
}
