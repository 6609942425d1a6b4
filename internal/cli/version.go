package cli

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
)

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary and of the schema it knows",
		Long:  "Print the version of this binary and of the schema it knows.",
		Example: `  whctl version
  whctl version -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runVersion(a) },
	}
}

type versionInfo struct {
	Version       string `json:"version"`
	Commit        string `json:"commit"`
	SchemaVersion int64  `json:"schema_version"`
	Go            string `json:"go"`
}

func runVersion(a *app) error {
	o, err := a.renderOptions()
	if err != nil {
		return err
	}
	v := versionInfo{Version: a.version, SchemaVersion: pgstore.Version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	view := render.View[versionInfo]{
		Columns: []render.Column[versionInfo]{
			{Header: "VERSION", Value: func(v versionInfo) string { return v.Version }},
			{Header: "COMMIT", Wide: true, Value: func(v versionInfo) string { return v.Commit }},
			{Header: "SCHEMA", Value: func(v versionInfo) string { return strconv.FormatInt(v.SchemaVersion, 10) }},
			{Header: "GO", Value: func(v versionInfo) string { return v.Go }},
		},
		JSON: func(v versionInfo) any { return v },
		Name: func(v versionInfo) string { return v.Version },
	}
	return render.One(a.io.Out, o, view, v)
}
