package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
)

func newMigrateCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade whctl's schema",
		Long: `Create or upgrade whctl's schema, forward only. Two at once are safe: one waits for the other, for up to
five minutes. The database's encoding must be UTF8, and the schema one of whctl's own: not public, and no word of SQL. A step that
needs a table which another session holds gives up after five seconds and leaves nothing behind.`,
		Example: `  whctl migrate up
  whctl migrate status`,
		Args: noArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newMigrateUpCmd(a), newMigrateStatusCmd(a), newMigrateSQLCmd(a))
	return cmd
}

func newMigrateUpCmd(a *app) *cobra.Command {
	var roles bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply the steps that are missing",
		Long: `Apply the steps that are missing. With --roles, also create the group roles whctl_producer, whctl_worker,
whctl_operator and whctl_reader and give each the least grants that it needs.`,
		Example: `  whctl migrate up
  whctl migrate up --roles`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMigrateUp(cmd.Context(), a, roles) },
	}
	cmd.Flags().BoolVar(&roles, "roles", false, "also create the group roles and their grants")
	return cmd
}

func runMigrateUp(ctx context.Context, a *app, roles bool) error {
	return a.withAnySchema(ctx, func(s *pgstore.Store) error {
		done, err := s.MigrateUp(ctx, roles)
		if err != nil {
			return err
		}
		if a.global.quiet {
			return nil
		}
		if a.global.output != "" || a.global.jq != "" {
			return writeSteps(a, done)
		}
		if len(done) == 0 {
			_, err = fmt.Fprintf(a.io.Out, "schema %s is up to date (version %d)\n", a.global.schema, pgstore.Version)
			return err
		}
		for _, step := range done {
			if _, err := fmt.Fprintf(a.io.Out, "applied %s\n", step.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

func newMigrateStatusCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the steps and when each was applied",
		Long:  "List the steps that this binary knows and when each was applied.",
		Example: `  whctl migrate status
  whctl migrate status -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMigrateStatus(cmd.Context(), a) },
	}
}

func runMigrateStatus(ctx context.Context, a *app) error {
	return a.withAnySchema(ctx, func(s *pgstore.Store) error {
		steps, err := s.MigrateStatus(ctx)
		if err != nil {
			return err
		}
		return writeSteps(a, steps)
	})
}

// withAnySchema runs f on the database as it is, also without a schema that fits.
func (a *app) withAnySchema(ctx context.Context, f func(s *pgstore.Store) error) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	s, err := a.openStore(ctx, c, storeNeeds{anySchema: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return f(s)
}

func writeSteps(a *app, steps []pgstore.Step) error {
	view := render.View[pgstore.Step]{
		Columns: []render.Column[pgstore.Step]{
			{Header: "VERSION", Right: true, Value: func(s pgstore.Step) string { return strconv.FormatInt(s.Version, 10) }},
			{Header: "STEP", Value: func(s pgstore.Step) string { return s.Name }},
			{Header: "APPLIED", Value: func(s pgstore.Step) string { return appliedAt(s.AppliedAt) }},
		},
		JSON: func(s pgstore.Step) any {
			return struct {
				Version   int64          `json:"version"`
				Step      string         `json:"step"`
				AppliedAt render.Instant `json:"applied_at"`
			}{s.Version, s.Name, render.Instant(s.AppliedAt)}
		},
		Name: func(s pgstore.Step) string { return s.Name },
	}
	o, err := a.renderOptions()
	if err != nil {
		return err
	}
	return view.Write(a.io.Out, o, steps)
}

func appliedAt(t time.Time) string {
	if t.IsZero() {
		return "not yet"
	}
	return render.Time(t)
}

func newMigrateSQLCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print the DDL of every step",
		Long: `Print the DDL of every step, for a DBA to read or to run as the role that is to own the schema. It connects
to nothing. What is printed also records the steps, so that "migrate up" then has nothing to do but --roles.`,
		Example: `  whctl migrate sql
  whctl migrate sql --schema webhooks`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := pgstore.MigrationSQL(a.global.schema)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.io.Out, text)
			return err
		},
	}
}
