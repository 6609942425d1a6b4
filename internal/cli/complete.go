package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

const (
	// defaultPatience bounds everything that a key press waits for, the database included.
	defaultPatience = 500 * time.Millisecond
	// completionWords is how many words are offered at most; more help nobody.
	completionWords = 100
)

// completer gives the words that may follow what was typed so far.
type completer = cobra.CompletionFunc

// addCompletions gives every flag and argument of the tree its completion, by the flag's
// name. What has no words and is no file is completed with nothing: the names of files
// that the shell would offer instead are wrong for it.
func (a *app) addCompletions(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.addCompletions(sub)
	}
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has || cmd.Flag(f.Name) != f || takesFile(f) {
			return
		}
		// The error is about a flag that does not exist or has one.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, a.flagCompleter(f.Name))
	})
}

// takesFile tells by the word for the value.
func takesFile(f *pflag.Flag) bool {
	word, _ := pflag.UnquoteUsage(f)
	return word == "FILE"
}

func (a *app) flagCompleter(name string) completer {
	switch name {
	case "destination":
		return a.destinationWords
	case "policy":
		return a.policyWords
	case "class":
		return fixedWords(wordsOf(work.Classes()))
	case "state":
		return fixedWords(wordsOf(work.States()))
	case "output":
		return fixedWords(render.Formats())
	case "log-format":
		return fixedWords([]string{"text", "json"})
	case "log-level":
		return fixedWords([]string{"debug", "info", "warn", "error"})
	case "fail-on":
		return fixedWords([]string{"dead", "retry"})
	}
	return cobra.NoFileCompletions
}

// completeDestinations completes a flag with names of destinations, whatever the flag is
// called.
func (a *app) completeDestinations(cmd *cobra.Command, flag string) {
	// The error is about a flag that does not exist or has one.
	_ = cmd.RegisterFlagCompletionFunc(flag, a.destinationWords)
}

func wordsOf[T ~string](values []T) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return words
}

func fixedWords(words []string) completer {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func (a *app) destinationWords(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.fromStore(func(ctx context.Context, s *pgstore.Store) ([]string, error) {
		return s.DestinationNames(ctx, typed, completionWords)
	})
}

// destinationArgs completes the one argument that is a destination.
func (a *app) destinationArgs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.destinationWords(cmd, args, typed)
}

// destinationsArgs completes any number of arguments that are destinations.
func (a *app) destinationsArgs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	words, directive := a.destinationWords(cmd, args, typed)
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) }), directive
}

// deliveryArgs completes delivery ids; scheduled: only those that could be cancelled.
func (a *app) deliveryArgs(scheduled bool) completer {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		words, directive := a.fromStore(func(ctx context.Context, s *pgstore.Store) ([]string, error) {
			return s.DeliveryIDs(ctx, typed, scheduled, completionWords)
		})
		return slices.DeleteFunc(words, func(w string) bool {
			return !strings.HasPrefix(w, typed) || slices.Contains(args, w)
		}), directive
	}
}

func (a *app) policyWords(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(c.Policies)), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) retentionWords(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(c.Retention.Policies)), cobra.ShellCompDirectiveNoFileComp
}

// fromStore asks the database, and answers with nothing when that fails or takes too
// long. The driver's calls do not end with their context on a link that has gone silent,
// so that they are left behind: the process ends right after.
func (a *app) fromStore(ask func(ctx context.Context, s *pgstore.Store) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), a.patience())
	defer cancel()
	answer := make(chan []string, 1)
	go func() {
		words, err := a.wordsFromStore(ctx, ask)
		if err != nil {
			words = nil
		}
		answer <- words
	}()
	select {
	case words := <-answer:
		return words, cobra.ShellCompDirectiveNoFileComp
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) patience() time.Duration {
	if a.completeWithin > 0 {
		return a.completeWithin
	}
	return defaultPatience
}

func (a *app) wordsFromStore(ctx context.Context, ask func(ctx context.Context, s *pgstore.Store) ([]string, error)) ([]string, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	bounded := *c
	bounded.Database = config.Database{URL: c.Database.URL, StatementTimeout: a.patience()}
	s, err := a.openStore(ctx, &bounded, storeNeeds{ioTimeout: a.patience()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	return ask(ctx, s)
}
