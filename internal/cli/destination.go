package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

func newDestinationCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "destination",
		Short: "List, apply, show, pause, resume, test and remove destinations",
		Long: `List, apply, show, pause, resume, test and remove destinations: the named endpoints that deliveries go to. A destination is a
URL, a policy, the name of a signing key and limits; it never holds a credential.

Paths and query strings of URLs may hold secrets, so that only scheme, host and port are printed, unless
--reveal-url is given.`,
		Example: `  whctl destination apply -f destinations.yaml
  whctl destination list`,
		Args: noArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(
		newDestinationApplyCmd(a), newDestinationListCmd(a), newDestinationShowCmd(a), newDestinationPauseCmd(a), newDestinationResumeCmd(a),
		newDestinationTestCmd(a), newDestinationRemoveCmd(a),
	)
	return cmd
}

func newDestinationListCmd(a *app) *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all destinations by name",
		Long: `List all destinations by name, and what holds them back: a pause, an open circuit, a Retry-After, their rate. "not ready
here" is one whose policy, key or header reference this process lacks: a worker may have other variables and files, and
says in its log and metrics what it lacks itself.

Of their URLs only scheme, host and port are printed, in every format, unless --reveal-url is given: path and query may
hold secrets.`,
		Example: `  whctl destination list
  whctl destination list -o json --jq '.[] | select(.policy == "default") | .name'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDestinationList(cmd.Context(), a, reveal) },
	}
	revealFlag(cmd, &reveal)
	return cmd
}

func revealFlag(cmd *cobra.Command, reveal *bool) {
	cmd.Flags().BoolVar(reveal, "reveal-url", false, "print whole URLs; path and query may hold secrets")
}

func runDestinationList(ctx context.Context, a *app, reveal bool) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(c *config.Config, s *pgstore.Store) error {
		list, err := s.Destinations(ctx)
		if err != nil {
			return err
		}
		asOf, err := s.Now(ctx)
		if err != nil {
			return err
		}
		if err := destinationView(a.lookAround(c).outlook, reveal, asOf).Write(a.io.Out, format, list); err != nil {
			return err
		}
		return faults(list)
	})
}

// faults are what keeps destinations from being used, each on a line.
func faults(list []work.Destination) error {
	var all []error
	for _, d := range list {
		all = append(all, d.Fault)
	}
	return errors.Join(all...)
}

func newDestinationShowCmd(a *app) *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one destination, its health and what it has to do",
		Long: `Show one destination, its health and what it has to do: its limits, or its policy's where it has none; what holds its
deliveries back now, "not ready here" being what this process lacks of its policy, key and header references (a worker
may have other variables and files); whether it is paused, by whom and why; its circuit (closed, open, half_open), and
until when it is open; until when the receiver asked for a pause; deliveries due now, scheduled in all, in flight (under a
live lease), stuck (under a lease that ran out) and dead.

Of its URL only scheme, host and port are printed, in every format, unless --reveal-url is given. Key and headers are
references; their values are never here.`,
		Example: `  whctl destination show carrier-b
  whctl destination show carrier-b -o json --jq .due`,
		Args: oneDestination,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDestinationShow(cmd.Context(), a, args[0], reveal)
		},
		ValidArgsFunction: a.destinationArgs,
	}
	revealFlag(cmd, &reveal)
	return cmd
}

// oneDestination wants one argument that could be a destination's name.
func oneDestination(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s wants one name, got %d", cmd.CommandPath(), len(args))
	}
	if err := work.CheckDestinationName(args[0]); err != nil {
		return usage("%v", err)
	}
	return nil
}

func runDestinationShow(ctx context.Context, a *app, name string, reveal bool) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(c *config.Config, s *pgstore.Store) error {
		d, load, err := s.Destination(ctx, name)
		if err != nil {
			return err
		}
		asOf, err := s.Now(ctx)
		if err != nil {
			return err
		}
		one := loadedDestination{d, load, a.lookAround(c).outlook(d), asOf, reveal}
		if forPeople(format) {
			err = render.Fields(a.io.Out, format, one.fields())
		} else {
			err = render.One(a.io.Out, format, loadedView(), one)
		}
		if err != nil {
			return err
		}
		return d.Fault
	})
}

// forPeople says that a detail view is wanted, not a row.
func forPeople(o render.Options) bool {
	return o.JQ == "" && (o.Format == "" || o.Format == render.Table || o.Format == render.Wide)
}

func newDestinationRemoveCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a destination that nothing needs any more",
		Long: `Remove a destination. While deliveries to it are scheduled, leased or dead it is refused (exit 3): deliver or
cancel what waits; a dead letter keeps its destination. Finished deliveries keep its name.`,
		Example: `  whctl destination remove carrier-b
  whctl destination show carrier-b && whctl destination remove carrier-b`,
		Args:              oneDestination,
		RunE:              func(cmd *cobra.Command, args []string) error { return runDestinationRemove(cmd.Context(), a, args[0]) },
		ValidArgsFunction: a.destinationArgs,
	}
}

func runDestinationRemove(ctx context.Context, a *app, name string) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		removed, load, err := s.RemoveDestination(ctx, name)
		if err != nil {
			return err
		}
		if !removed {
			return fmt.Errorf("%w: destination %q is still needed: %s", work.ErrRefused, name, needs(load))
		}
		if a.global.quiet {
			return nil
		}
		change := work.DestinationChange{Name: name, Action: work.DestinationRemoved}
		return changeView().Write(a.io.Out, format, []work.DestinationChange{change})
	})
}

// withStore runs f with the configuration and a database whose schema fits.
func (a *app) withStore(ctx context.Context, f func(c *config.Config, s *pgstore.Store) error) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	s, err := a.openStore(ctx, c, storeNeeds{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return f(c, s)
}
