package cli

import "github.com/spf13/cobra"

func newCancelCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "cancel", Args: noArgs} }
