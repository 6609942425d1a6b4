package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/render"
)

func newConfigCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show or check the configuration",
		Long: `Show or check the configuration. A value comes from a flag, else the environment, else the file, else the
default. The file is the one of --config, else $WHCTL_CONFIG, else ./whctl.yaml, else
$XDG_CONFIG_HOME/whctl/whctl.yaml, else /etc/whctl/whctl.yaml; none is fine.

Every key can be set in the environment: WHCTL_ and its path in capitals, with two underscores between levels.`,
		Example: `  whctl config show
  whctl config validate --config /etc/whctl/whctl.yaml`,
		Args: noArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newConfigShowCmd(a), newConfigValidateCmd(a))
	return cmd
}

func newConfigShowCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the effective values and where each came from",
		Long: `Print every effective value and where it came from: default, file FILE:LINE, environment NAME or flag.
Secrets are masked. Each JSON row has path, value and origin.`,
		Example: `  whctl config show
  whctl config show -o json --jq '.[] | select(.origin != "default")'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runConfigShow(a) },
	}
}

func runConfigShow(a *app) error {
	format, err := a.renderOptions()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	return settingsView().Write(a.io.Out, format, c.Settings())
}

func settingsView() render.View[config.Setting] {
	return render.View[config.Setting]{
		Columns: []render.Column[config.Setting]{
			{Header: "PATH", Fixed: true, Value: func(s config.Setting) string { return s.Path }},
			{Header: "VALUE", Value: func(s config.Setting) string { return s.Value }},
			{Header: "ORIGIN", Value: func(s config.Setting) string { return s.Origin }},
		},
		JSON: func(s config.Setting) any {
			return struct {
				Path   string `json:"path"`
				Value  string `json:"value"`
				Origin string `json:"origin"`
			}{s.Path, s.Value, s.Origin}
		},
		Name: func(s config.Setting) string { return s.Path },
	}
}

func newConfigValidateCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration and name every problem",
		Long: `Check the configuration: file, environment and flags together. It exits 0 and says which file was read, or
exits 78 with every problem on a line of its own. It connects to nothing and reads no secret.`,
		Example: `  whctl config validate
  whctl config validate --config /etc/whctl/whctl.yaml`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runConfigValidate(a) },
	}
}

func runConfigValidate(a *app) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	// What is wrong with a certificate file shows when it is read.
	if _, err := a.newSender(c, 0); err != nil {
		return err
	}
	if a.global.quiet {
		return nil
	}
	text := render.Visible(c.File) + " is valid"
	if c.File == "" {
		text = "the defaults and the environment are valid; there is no configuration file"
	}
	_, err = fmt.Fprintln(a.io.Out, text)
	return err
}
