package cli

import (
	"context"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// actOptions are those of an act on destinations: it needs to know who acts.
type actOptions struct{ actor }

func (o *actOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why; it goes on record (needed)")
	f.StringVar(&o.operator, "operator", "", "`NAME` of who acts (default: $WHCTL_OPERATOR; one is needed)")
}

func (o *actOptions) validate(a *app, cmd *cobra.Command) error {
	if err := o.check(a, cmd.CommandPath(), cmd.Flags().Changed("operator")); err != nil {
		return err
	}
	if o.operator == "" {
		return usage("%s needs to know who acts: --operator NAME, or $WHCTL_OPERATOR", cmd.CommandPath())
	}
	return nil
}

func newDestinationPauseCmd(a *app) *cobra.Command {
	cmd := newDestinationActCmd(a, destinationAct{pauses: true, do: func(ctx context.Context, s *pgstore.Store, act work.DestinationAct) (bool, error) {
		return s.PauseDestination(ctx, act)
	}})
	cmd.Use = "pause NAME [NAME…] --reason REASON --operator NAME"
	cmd.Short = "Hold back what goes to destinations"
	cmd.Long = `Hold back what goes to destinations, until somebody resumes them. Nothing is dropped and no attempt is used up:
what is due waits, and may still be enqueued or cancelled. What is in flight is not broken off. Who did it and why goes
on record.

One that is paused already stays so, under the new operator and reason. An unknown name exits 4.`
	cmd.Example = `  whctl destination pause carrier-b --reason 'they migrate until noon' --operator ana
  whctl destination pause carrier-a carrier-b --reason INC-77 --operator ana -o json`
	return cmd
}

func newDestinationResumeCmd(a *app) *cobra.Command {
	cmd := newDestinationActCmd(a, destinationAct{do: func(ctx context.Context, s *pgstore.Store, act work.DestinationAct) (bool, error) {
		return s.ResumeDestination(ctx, act)
	}})
	cmd.Use = "resume NAME [NAME…] --reason REASON --operator NAME"
	cmd.Short = "Let what goes to paused destinations go again"
	cmd.Long = `Let what goes to paused destinations go again. That says that the receiver is mended: an open circuit is closed,
and what counted towards the next one is forgotten. A pause that the receiver itself asked for (Retry-After) stays. Who
did it and why goes on record.

After five answers of 401 or 403 in a row whctl pauses a destination by itself. These five deliveries are dead, and so
is what was in flight with them and refused as well, 4 + max_in_flight at most. Resumed while the credentials are still
wrong, as many may die again; whctl destination test tells beforehand, and harms none.

One that was not paused is no error. An unknown name exits 4.`
	cmd.Example = `  whctl destination resume carrier-b --reason 'migration is over' --operator ana
  whctl destination list -o json --jq '.[] | select(.paused) | .name'`
	return cmd
}

// destinationAct is what is done to each of the named destinations.
type destinationAct struct {
	pauses bool // else it resumes
	do     func(ctx context.Context, s *pgstore.Store, act work.DestinationAct) (paused bool, err error)
}

func newDestinationActCmd(a *app, act destinationAct) *cobra.Command {
	var o actOptions
	cmd := &cobra.Command{
		Args: destinationNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(a, cmd); err != nil {
				return err
			}
			return runDestinationAct(cmd.Context(), a, act, unique(args), o)
		},
		ValidArgsFunction: a.destinationsArgs,
	}
	o.flags(cmd)
	return cmd
}

// destinationNames wants arguments that could be names of destinations.
func destinationNames(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s wants at least one name", cmd.CommandPath())
	}
	for _, name := range args {
		if err := work.CheckDestinationName(name); err != nil {
			return usage("%v", err)
		}
	}
	return nil
}

// pausedOrNot is what became of one name.
type pausedOrNot struct {
	Name   string `json:"name"`
	Paused *bool  `json:"paused"` // now; null for a name that does not exist
	Was    bool   `json:"was_paused"`
}

func runDestinationAct(ctx context.Context, a *app, act destinationAct, names []string, o actOptions) error {
	return actOnEach(ctx, a, names, pausedView(), func(s *pgstore.Store, name string) (pausedOrNot, error) {
		was, err := act.do(ctx, s, work.DestinationAct{Name: name, Operator: o.operator, Reason: o.reason})
		one := pausedOrNot{Name: name, Was: was}
		if err == nil {
			one.Paused = &act.pauses
		}
		return one, err
	})
}

func pausedView() render.View[pausedOrNot] {
	return render.View[pausedOrNot]{
		Columns: []render.Column[pausedOrNot]{
			{Header: "NAME", Value: func(p pausedOrNot) string { return p.Name }},
			{Header: "RESULT", Value: pausedResult},
		},
		Name: func(p pausedOrNot) string { return p.Name },
	}
}

func pausedResult(p pausedOrNot) string {
	switch {
	case p.Paused == nil:
		return "not found"
	case *p.Paused && p.Was:
		return "paused (it already was)"
	case *p.Paused:
		return "paused"
	case p.Was:
		return "resumed"
	}
	return "was not paused; its circuit is closed"
}
