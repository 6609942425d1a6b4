package cli

import "github.com/spf13/cobra"

func newDestinationCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "destination", Args: noArgs} }
