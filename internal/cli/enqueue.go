package cli

import "github.com/spf13/cobra"

func newEnqueueCmd(_ *app) *cobra.Command { return &cobra.Command{Use: "enqueue", Args: noArgs} }
