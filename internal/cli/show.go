package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

func newShowCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID [ID…]",
		Short: "Show deliveries with every attempt",
		Long: `Show deliveries: where each stands, what happens next, every attempt of every generation (the open one included)
with what the receiver answered, and what people did to it. The payload is not shown, only its size.

-o json prints one object for one id, and an array for several. It has the columns of the view
whctl.delivery_status, where attempts is the list of attempts (the columns of whctl.attempt_history, and excerpt)
and attempts_in_generation their number in this generation. An id that does not exist exits 4, after those that do
were printed.`,
		Example: `  whctl show del-8f31
  whctl show del-8f31 -o json --jq '.attempts[] | [.attempt, .class, .status]'`,
		Args:              deliveryIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return runShow(cmd.Context(), a, args) },
		ValidArgsFunction: a.deliveryArgs(false),
	}
}

// deliveryIDs wants one or more arguments that could be delivery ids.
func deliveryIDs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s wants at least one delivery id", cmd.CommandPath())
	}
	for _, id := range args {
		if err := work.CheckDeliveryID(id); err != nil {
			return usage("%v", err)
		}
	}
	return nil
}

// unique is ids without repeats, in their order.
func unique(ids []string) []string {
	var out []string
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func runShow(ctx context.Context, a *app, args []string) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	ids := unique(args)
	return a.withStore(ctx, func(_ *config.Config, s *pgstore.Store) error {
		details, err := s.Details(ctx, ids)
		if err != nil {
			return err
		}
		if err := a.writeDetails(format, details, len(ids) == 1); err != nil {
			return err
		}
		return missing(ids, details)
	})
}

func (a *app) writeDetails(format render.Options, details []work.Detail, single bool) error {
	switch {
	case single && len(details) == 0:
		return nil
	case !forPeople(format) && single:
		return render.One(a.io.Out, format, detailView(), details[0])
	case !forPeople(format):
		return detailView().Write(a.io.Out, format, details)
	}
	for i, d := range details {
		if i > 0 {
			if _, err := fmt.Fprintln(a.io.Out); err != nil {
				return err
			}
		}
		if err := writeDetail(a.io.Out, format, d); err != nil {
			return err
		}
	}
	return nil
}

// missing names the ids that were not found.
func missing(ids []string, details []work.Detail) error {
	var lost []string
	for _, id := range ids {
		if !slices.ContainsFunc(details, func(d work.Detail) bool { return d.DeliveryID == id }) {
			lost = append(lost, id)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("delivery %s: %w", strings.Join(lost, ", "), work.ErrNotFound)
}
