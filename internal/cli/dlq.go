package cli

import "github.com/spf13/cobra"

func newDLQCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "dlq", Args: noArgs} }
