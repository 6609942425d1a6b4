package cli

import "github.com/spf13/cobra"

func newDemoCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "demo", Args: noArgs} }
