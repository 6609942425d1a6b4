package cli

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/render"
)

// Main runs the command line and returns the exit code.
func Main(streams *console.Streams, version string, args []string) int {
	return (&app{io: streams, version: version}).main(args)
}

// main runs the command that args name, and answers with its exit code.
func (a *app) main(args []string) int {
	ctx, again, stop := untilSignal()
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- a.run(ctx, args) }()
	select {
	case code := <-ended:
		return code
	case s := <-again:
		return signalCode(s)
	}
}

func (a *app) run(ctx context.Context, args []string) int {
	// Caught, a write to a closed stdout is an error that ends the command quietly;
	// else it would end the process in the middle of its work.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// net/http tells the standard logger what a receiver sent without being asked, in the
	// receiver's own bytes. The outcome of the attempt says so in ours.
	log.SetOutput(io.Discard)
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = signalFirst(ctx, err)
	code := exitCode(err)
	if err != nil && code != exitOK {
		report(ctx, a.io, cmd, err)
	}
	return code
}

// echo is how long the same signal counts as the same word said twice: timeout(1) signals
// its child, and then the group that the child is in.
const echo = 250 * time.Millisecond

// untilSignal is a context that the first SIGINT, SIGTERM, SIGHUP or SIGQUIT ends, with
// the signal as its cause. A second one comes by the channel, and is to end the process at
// once. Left to itself it would not do so everywhere: the first process of a container
// is not killed by it, and Go then ends with 2.
func untilSignal() (context.Context, <-chan os.Signal, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	again := make(chan os.Signal, 1)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(signalled{s})
			again <- second(signals, done, s, echo)
		case <-done:
		}
	}()
	return ctx, again, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// second is the signal after the first, unless that is its echo; nil when done comes before.
func second(signals <-chan os.Signal, done <-chan struct{}, first os.Signal, echo time.Duration) os.Signal {
	began := time.Now()
	for {
		select {
		case s := <-signals:
			if s != first || time.Since(began) >= echo {
				return s
			}
		case <-done:
			return nil
		}
	}
}

// report prints an error once, on one line for each of its parts.
func report(ctx context.Context, streams *console.Streams, cmd *cobra.Command, err error) {
	var own *exitError
	if asExit(err, &own) && own.cause == nil {
		return
	}
	a := app{io: streams}
	for _, line := range lines(message(ctx, err)) {
		a.warn("%s", line)
	}
	if exitCode(err) == exitUsage && cmd != nil {
		a.warn("see: %s --help", cmd.CommandPath())
	}
}

// NewRoot is the whole tree of commands.
func NewRoot(streams *console.Streams, version string) *cobra.Command {
	return (&app{io: streams, version: version}).root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "whctl",
		Short: "Send webhooks from a Postgres work table",
		Long: `whctl sends webhooks from a Postgres work table, in bounded batches that cron, systemd timers or
Kubernetes CronJobs start, and helps people to triage what could not be delivered.`,
		Example: `  whctl migrate up
  whctl deliver --once --quiet`,
		Version:       a.version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          showHelp,
	}
	root.SetIn(a.io.In)
	root.SetOut(a.io.Out)
	root.SetErr(a.io.Err)
	root.SetVersionTemplate("whctl {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.CompletionOptions.HiddenDefaultCmd = false
	a.addGlobalFlags(root)
	root.AddCommand(
		newMigrateCmd(a), newConfigCmd(a), newDestinationCmd(a), newEnqueueCmd(a), newDeliverCmd(a), newSweepCmd(a), newDryRunCmd(a),
		newShowCmd(a), newCancelCmd(a), newDLQCmd(a), newDemoCmd(a), newVersionCmd(a),
	)
	root.SetHelpCommand(newHelpCmd())
	addCompletionCmd(root)
	a.addCompletions(root)
	return root
}

func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	g := &a.global
	f.StringVar(&g.config, "config", "", "configuration `FILE` (default: $WHCTL_CONFIG, ./whctl.yaml, $XDG_CONFIG_HOME/whctl/whctl.yaml, /etc/whctl/whctl.yaml)")
	f.StringVar(&g.databaseURL, "database-url", "", "where the database is (default: $WHCTL_DATABASE_URL, database.url, libpq's habits); put no password here, ps shows it")
	f.StringVar(&g.databaseURLFile, "database-url-file", "", "`FILE` that holds the database URL")
	f.StringVar(&g.schema, "schema", "whctl", "schema that holds whctl's tables")
	f.StringVarP(&g.output, "output", "o", "", "output `FORMAT`: "+strings.Join(render.Formats(), ", "))
	f.BoolVar(&g.noHeaders, "no-headers", false, "leave out the header line of tables and CSV")
	f.StringVar(&g.jq, "jq", "", "filter JSON output with a jq `EXPR`")
	f.StringVar(&g.logFormat, "log-format", "", "log format on stderr: text or json (default: text on a terminal, else json)")
	f.StringVar(&g.logLevel, "log-level", "", "log level: debug, info, warn or error (default: info, warn with --quiet)")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "print nothing unless something went wrong")
}

// noArgs refuses arguments as a usage error; below a group it is what catches a typo.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return usage("unknown command %q for %q%s", args[0], cmd.CommandPath(), suggestion(cmd, args[0]))
	}
	return usage("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
}

// showHelp is what a group without a subcommand does.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }
