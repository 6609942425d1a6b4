package pgstore

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"

	"example.com/whctl/migrations"
)

// insertStepSQL records a step as the library does; version 0 is its mark that the table
// is there.
const insertStepSQL = `INSERT INTO %s (version_id, is_applied) VALUES (%d, true);`

// MigrationSQL is the DDL of every step for schema, in order, for a person to read
// or run. It keeps the same records as MigrateUp, which then finds nothing to do. Errors
// wrap work.ErrConfig.
func MigrationSQL(schema string) (string, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchemaName(schema); err != nil {
		return "", err
	}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return "", err
	}
	table := stepsTable(schema)
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n\n-- which steps have been applied\nBEGIN;%s;\n"+insertStepSQL+"\nCOMMIT;\n",
		schema, fmt.Sprintf(createStepsSQL, table), table, 0)
	for _, name := range names {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return "", err
		}
		version, err := goose.NumericComponent(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n-- %s\nBEGIN;\n%s\n"+insertStepSQL+"\nCOMMIT;\n",
			name, strings.TrimSpace(qualify(withoutMarks(string(text)), schema)), table, version)
	}
	return b.String(), nil
}

// withoutMarks is a step without the marks that only the migration library reads.
func withoutMarks(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-- +goose") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
