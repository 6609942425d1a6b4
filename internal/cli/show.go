package cli

import "github.com/spf13/cobra"

func newShowCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "show", Args: noArgs} }
