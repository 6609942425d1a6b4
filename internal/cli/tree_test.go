package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/whctl/internal/console"
)

// tree is every command, the generated ones among them.
func tree(t *testing.T) []*cobra.Command {
	t.Helper()
	s, _, _, _ := console.Test()
	root := NewRoot(s, "test")
	root.InitDefaultHelpCmd()
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return all
}

// A typo below a group must not end with 0: under cron nobody would notice.
func TestATypoBelowAGroupIsAUsageError(t *testing.T) {
	groups := 0
	for _, c := range tree(t) {
		if !c.HasSubCommands() {
			continue
		}
		groups++
		args := append(strings.Fields(c.CommandPath())[1:], "nosuch")
		if got := (call{args: args}).run(t); got.code != exitUsage || got.out != "" {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, got.code, got.out, got.err)
		}
		if c.Name() == "sweep" { // which works without a subcommand
			continue
		}
		if got := (call{args: args[:len(args)-1]}).run(t); got.code != exitOK || got.out == "" || got.err != "" {
			t.Errorf("%v: exit %d, stderr %q", args[:len(args)-1], got.code, got.err)
		}
	}
	if groups < 6 { // root, migrate, config, destination, dlq, completion
		t.Errorf("%d groups", groups)
	}
}

func TestAnUnknownFlagIsAUsageError(t *testing.T) {
	for _, c := range tree(t) {
		args := append(strings.Fields(c.CommandPath())[1:], "--nosuch")
		if got := (call{args: args}).run(t); got.code != exitUsage || got.out != "" {
			t.Errorf("%v: exit %d, stdout %q", args, got.code, got.out)
		}
	}
}

func TestMoreArgumentsThanWantedAreAUsageError(t *testing.T) {
	for _, line := range []string{
		"completion bash x", "help nosuch", "help dlq nosuch", "version x", "config show x", "dlq list x", "destination list x",
		"destination show", "destination show a b", "destination remove", "show", "cancel --reason x", "destination show a/b", "destination remove -- -a", "destination test", "destination test a b", "show a/b",
		"cancel a/b --reason x",
	} {
		if got := (call{args: strings.Fields(line)}).run(t); got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, got.code, got.out, got.err)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for _, c := range tree(t) {
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || strings.Contains(c.Short, "\n") || len(c.Short) > 70 {
			t.Errorf("%s: short help %q", path, c.Short)
		}
		if c.Long == "" || len(c.Long) < len(c.Short) {
			t.Errorf("%s: long help %q", path, c.Long)
		}
		examples := 0
		for _, line := range strings.Split(c.Example, "\n") {
			if line == "  whctl" || strings.HasPrefix(line, "  whctl ") {
				examples++
			}
		}
		if examples < 2 {
			t.Errorf("%s: %d examples in %q", path, examples, c.Example)
		}
	}
}

// A flag means the same wherever it stands: one type, one short form, and a global one
// is not hidden by another.
func TestFlagsMeanTheSameEverywhere(t *testing.T) {
	type meaning struct{ kind, short, where string }
	known := map[string]meaning{}
	shorts := map[string]string{}
	for _, c := range tree(t) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if c.Root().PersistentFlags().Lookup(f.Name) != nil && c != c.Root() {
				t.Errorf("%s --%s hides the global flag", c.CommandPath(), f.Name)
			}
		})
		c.Flags().VisitAll(func(f *pflag.Flag) {
			m := meaning{f.Value.Type(), f.Shorthand, c.CommandPath()}
			if first, ok := known[f.Name]; ok && (first.short != m.short || !sameKind(first.kind, m.kind)) {
				t.Errorf("--%s is %s -%s in %s, and %s -%s in %s", f.Name, first.kind, first.short, first.where, m.kind, m.short, m.where)
			}
			known[f.Name] = m
			if f.Shorthand != "" {
				if name, ok := shorts[f.Shorthand]; ok && name != f.Name {
					t.Errorf("-%s is --%s and --%s", f.Shorthand, name, f.Name)
				}
				shorts[f.Shorthand] = f.Name
			}
		})
	}
}

// sameKind: a flag that may be repeated in one command and not in another is still the
// same thing.
func sameKind(a, b string) bool {
	list := func(s string) string {
		return strings.TrimSuffix(strings.TrimSuffix(s, "Array"), "Slice")
	}
	return list(a) == list(b)
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []struct {
		name  string
		check []string
		sign  string
	}{
		{"bash", []string{"bash", "-n"}, "__start_whctl"},
		{"zsh", []string{"zsh", "-n", "/dev/stdin"}, "#compdef whctl"},
		{"fish", []string{"fish", "--no-execute", "/dev/stdin"}, "complete -c whctl"},
		{"powershell", nil, "Register-ArgumentCompleter"},
	} {
		got := run(t, nil, exitOK, "completion", shell.name)
		has(t, got.out, shell.sign)
		if got.err != "" {
			t.Errorf("%s: stderr %q", shell.name, got.err)
		}
		if shell.check == nil {
			continue
		}
		path, err := exec.LookPath(shell.check[0])
		if err != nil {
			t.Logf("%s is not here: its script is looked at, not parsed", shell.check[0])
			continue
		}
		cmd := exec.CommandContext(t.Context(), path, shell.check[1:]...)
		cmd.Stdin = bytes.NewBufferString(got.out)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell.name, err, out)
		}
	}
}
