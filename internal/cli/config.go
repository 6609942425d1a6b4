package cli

import "github.com/spf13/cobra"

func newConfigCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "config", Args: noArgs} }
