package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

func newCancelCmd(a *app) *cobra.Command {
	var o actor
	cmd := &cobra.Command{
		Use:   "cancel ID [ID…] --reason REASON",
		Short: "Cancel deliveries that are scheduled",
		Long: `Cancel deliveries that are scheduled, each on its own. Who did it and why goes on record: the operator is the one
of --operator, else $WHCTL_OPERATOR, else the database role.

A delivery that is not scheduled stays as it is: its state is named, and the exit code is 3. An id that does not
exist exits 4.`,
		Example: `  whctl cancel del-8f31 --reason 'enrolment was withdrawn'
  whctl cancel del-8f31 del-8f32 --reason 'duplicates, see INC-77' --operator ana`,
		Args: deliveryIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(a, "cancel", cmd.Flags().Changed("operator")); err != nil {
				return err
			}
			return runCancel(cmd.Context(), a, unique(args), o)
		},
		ValidArgsFunction: a.deliveryArgs(true),
	}
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why; it goes on record")
	f.StringVar(&o.operator, "operator", "", "`NAME` of who acts (default: $WHCTL_OPERATOR, else the database role)")
	return cmd
}

// cancelled is what became of one id.
type cancelled struct {
	DeliveryID string      `json:"delivery_id"`
	Cancelled  bool        `json:"cancelled"` // by this call
	State      *work.State `json:"state"`     // it is in now; null for an id that does not exist, or where the role may not look
	unseen     bool        // the role may not look
}

func runCancel(ctx context.Context, a *app, ids []string, o actor) error {
	return actOnEach(ctx, a, ids, cancelView(), func(s *pgstore.Store, id string) (cancelled, error) {
		return cancelOne(ctx, s, work.Cancellation{DeliveryID: id, Reason: o.reason, Operator: o.operator})
	})
}

func cancelOne(ctx context.Context, s *pgstore.Store, c work.Cancellation) (cancelled, error) {
	one := cancelled{DeliveryID: c.DeliveryID}
	done, state, err := s.Cancel(ctx, c)
	if err != nil {
		return one, err
	}
	one.Cancelled, one.State = done, orNull(state)
	if done {
		return one, nil
	}
	if state == "" {
		one.unseen = true
		return one, fmt.Errorf("%w: delivery %s is not scheduled, or does not exist: the role may not look", work.ErrRefused, c.DeliveryID)
	}
	return one, fmt.Errorf("%w: delivery %s is %s, not scheduled", work.ErrRefused, c.DeliveryID, state)
}

func cancelView() render.View[cancelled] {
	return render.View[cancelled]{
		Columns: []render.Column[cancelled]{
			{Header: "DELIVERY ID", Value: func(c cancelled) string { return c.DeliveryID }},
			{Header: "RESULT", Value: cancelResult},
		},
		Name: func(c cancelled) string { return c.DeliveryID },
	}
}

func cancelResult(c cancelled) string {
	switch {
	case c.Cancelled:
		return "cancelled"
	case c.unseen:
		return "refused"
	case c.State == nil:
		return "not found"
	}
	return "refused: " + string(*c.State)
}
