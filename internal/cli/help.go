package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// newHelpCmd is help as a command. Cobra's own succeeds for a command that is not there.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND…]",
		Short: "Show the help of a command",
		Long:  "Show the help of a command, as its flag --help does.",
		Example: `  whctl help
  whctl help dlq list`,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no command %q", strings.Join(append([]string{cmd.Root().Name()}, args...), " "))
			}
			return of.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var words []string
			for _, sub := range of.Commands() {
				if sub.IsAvailableCommand() {
					words = append(words, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// addCompletionCmd adds cobra's command for completion scripts, made to the measure of
// the others: a typo below it is a usage error, and each has its examples.
func addCompletionCmd(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = noArgs, showHelp
		c.Short = "Print a completion script for a shell"
		c.Long = `Print a completion script for a shell. Destinations, policies, classes and delivery ids are completed from the
configuration and the database, for which a key press waits half a second at most.`
		c.Example = completionExamples("bash") + "\n" + completionExamples("fish")
		for _, shell := range c.Commands() {
			shell.Args = noArgs
			shell.Example = completionExamples(shell.Name())
		}
	}
}

func completionExamples(shell string) string {
	switch shell {
	case "bash":
		return `  whctl completion bash > ~/.local/share/bash-completion/completions/whctl
  whctl completion bash > /usr/share/bash-completion/completions/whctl`
	case "zsh":
		return `  whctl completion zsh > "${fpath[1]}/_whctl"
  whctl completion zsh > /usr/share/zsh/vendor-completions/_whctl`
	case "fish":
		return `  whctl completion fish > ~/.config/fish/completions/whctl.fish
  whctl completion fish | source`
	}
	return `  whctl completion powershell | Out-String | Invoke-Expression
  whctl completion powershell > whctl.ps1`
}
