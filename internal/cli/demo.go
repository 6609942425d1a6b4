package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/demo"
)

func newDemoCmd(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch whctl work, on a throw-away Postgres",
		Long: `Watch whctl work, on a throw-away Postgres. A private server and a receiver are started, twelve enrolments are
delivered through retries, two ticks at once, a worker that is killed and a payload that no receiver takes, and
the accounts are settled from both sides at the end: exit 1 if they do not add up. It takes less than a minute,
needs Postgres' programs (not a running server), touches no other database and leaves nothing behind.

With --keep, server and receiver stay until Ctrl-C, with some commands to try.`,
		Example: `  whctl demo
  whctl demo --keep`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"config", "database-url", "database-url-file", "schema", "output", "jq"} {
				if cmd.Flags().Changed(name) {
					return usage("--%s does not apply: the demo brings its own database and configuration", name)
				}
			}
			return runDemo(cmd.Context(), a, keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave server and receiver running until Ctrl-C, with commands to try")
	return cmd
}

func runDemo(ctx context.Context, a *app, keep bool) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program's own file: %w", err)
	}
	// The driver would read PGSERVICE and the like, which are about other databases.
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PG") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	// A reader that goes away must not end this process before it has cleaned up.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return demo.Run(ctx, demo.Options{Streams: a.io, Binary: binary, Keep: keep, Quiet: a.global.quiet})
}
