package cli

import (
	"context"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/work"
)

type destinationApplyOptions struct {
	file  string
	prune bool
	yes   bool
}

func newDestinationApplyCmd(a *app) *cobra.Command {
	var o destinationApplyOptions
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the destinations what a file says",
		Long: `Make the destinations what a file says, all in one transaction, and print what became of each. Applying the same
file again changes nothing. A file in which anything is wrong is refused whole, every problem on a line of its own
(exit 78): a URL that could never be sent to, an unknown policy or key, a name that is there twice.

The file:

  destinations:
    - name: carrier-b                     # A-Z a-z 0-9 . _ -
      url: https://hooks.carrier-b.example/v1
      policy: default                     # as configured; default where it is left out
      key: carrier-b                      # name of a configured signing key
      max_in_flight: 8                    # instead of the policy's
      rate: 50/s                          # instead of the policy's
      headers: {X-Token: {env: TOKEN}}    # references: {env: NAME} or {file: PATH}
      tenants: [acme]

The body of the policy and enqueue.payload_max are stored with each destination, for whctl.enqueue in SQL: apply the
file again when they change. --prune removes the destinations that the file does not name and nothing needs; those
with deliveries that are scheduled, leased or dead are kept and named.`,
		Example: `  whctl destination apply -f destinations.yaml
  whctl destination apply -f - --prune --yes < destinations.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDestinationApply(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "`FILE` of destinations, - for standard input")
	f.BoolVar(&o.prune, "prune", false, "remove destinations that the file does not name and nothing needs")
	f.BoolVar(&o.yes, "yes", false, "do it without a terminal")
	return cmd
}

func runDestinationApply(ctx context.Context, a *app, o destinationApplyOptions) error {
	format, err := a.renderOptions()
	switch {
	case err != nil:
		return err
	case o.file == "":
		return usage("destination apply needs -f FILE")
	case o.prune && !o.yes && !(a.io.InTTY && a.io.ErrTTY):
		return usage("--prune without a terminal needs --yes")
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	file, err := readDestinations(o.file, a.stdin(ctx))
	if err != nil {
		return err
	}
	sender, err := a.newSender(c, 0)
	if err != nil {
		return err
	}
	file.check(c, sender)
	if o.prune && file.listed && len(file.entries) == 0 {
		file.problem(1, "the list is empty, and --prune would remove everything: remove destinations by name")
	}
	if err := file.err(); err != nil {
		return err
	}
	store, err := a.openStore(ctx, c, storeNeeds{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	changes, err := applyFile(ctx, store, file, o.prune)
	if err != nil || a.global.quiet {
		return err
	}
	return changeView().Write(a.io.Out, format, changes)
}

func applyFile(ctx context.Context, s *pgstore.Store, f *destinationFile, prune bool) ([]work.DestinationChange, error) {
	wanted := make([]work.Destination, len(f.entries))
	for i, e := range f.entries {
		wanted[i] = e.Destination
	}
	return s.ApplyDestinations(ctx, wanted, prune)
}
