package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/pressly/goose/v3"

	"example.com/whctl/internal/work"
	"example.com/whctl/migrations"
)

// Step is one migration and whether it has been applied.
type Step struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero: not yet
}

// migrateLock is held by whoever migrates. It belongs to a transaction, not to a
// session: behind a pooler a session's lock would end up with a stranger.
const (
	migrateLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('whctl migrate ' || $1, 0))`
	// The lock is kept in an otherwise idle transaction for as long as the steps
	// take, and waits for another migration to end, not for a table.
	migrateLockSettingsSQL = `SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = '5min'`
	createSchemaSQL        = `CREATE SCHEMA IF NOT EXISTS `
)

// MigrateUp applies the steps that are missing, under a lock, each in a transaction
// of its own, and returns those it applied. Two at once are safe: one waits.
func (s *Store) MigrateUp(ctx context.Context, roles bool) ([]Step, error) {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return nil, fault(err)
	}
	defer func() { _ = tx.Rollback() }() // it only held the lock
	if _, err := tx.ExecContext(ctx, migrateLockSettingsSQL); err != nil {
		return nil, fault(err)
	}
	if _, err := tx.ExecContext(ctx, migrateLockSQL, s.schema); err != nil {
		return nil, fmt.Errorf("wait for another migration: %w", fault(err))
	}
	if err := s.prepareSchema(ctx); err != nil {
		return nil, err
	}
	p, err := s.provider()
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	if err != nil {
		return nil, migrationFault(err)
	}
	var done []Step
	for _, r := range results {
		done = append(done, Step{Version: r.Source.Version, Name: r.Source.Path})
	}
	if roles {
		err = s.write(ctx, func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, s.sql(migrations.Roles))
			return err
		})
		if err != nil {
			return done, fmt.Errorf("create the roles: %w", err)
		}
	}
	return done, nil
}

// prepareSchema makes the schema where it is missing and refuses one that is newer
// than this binary may touch.
func (s *Store) prepareSchema(ctx context.Context) error {
	v, err := s.ReadSchemaVersion(ctx)
	if err != nil {
		return err
	}
	if v.Version > Version {
		return v.check(s.schema)
	}
	if v.Version > 0 {
		return nil
	}
	return s.write(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, createSchemaSQL+s.schema)
		return err
	})
}

func migrationFault(err error) error {
	if pq.As(err, "55P03") != nil {
		return fmt.Errorf("a session holds a table that the step needs, for longer than its lock time-out; nothing of the step was applied, run it again: %w", err)
	}
	return fault(err)
}

// MigrateStatus lists every step this binary knows.
func (s *Store) MigrateStatus(ctx context.Context) ([]Step, error) {
	v, err := s.ReadSchemaVersion(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.provider()
	if err != nil {
		return nil, err
	}
	var steps []Step
	if v.Version == 0 {
		for _, src := range p.ListSources() {
			steps = append(steps, Step{Version: src.Version, Name: src.Path})
		}
		return steps, nil
	}
	list, err := p.Status(ctx)
	if err != nil {
		return nil, fault(err)
	}
	for _, m := range list {
		steps = append(steps, Step{Version: m.Source.Version, Name: m.Source.Path, AppliedAt: m.AppliedAt})
	}
	return steps, nil
}

func (s *Store) provider() (*goose.Provider, error) {
	p, err := goose.NewProvider(goose.DialectPostgres, s.db.DB, stepsFS{schema: s.schema},
		goose.WithTableName(s.schema+".migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
}

// MigrationSQL is the DDL of every step for schema, in order, for a person to read
// or run. Errors wrap work.ErrConfig.
func MigrationSQL(schema string) (string, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if !schemaName.MatchString(schema) {
		return "", fmt.Errorf("%w: schema %q: want a lower-case name of letters, digits and _", work.ErrConfig, schema)
	}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n", schema)
	for _, name := range names {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n-- %s\nBEGIN;\n%s\nCOMMIT;\n", name, strings.TrimSpace(qualify(withoutMarks(string(text)), schema)))
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

// stepsFS is the embedded steps, written for another schema.
type stepsFS struct{ schema string }

func (f stepsFS) Open(name string) (fs.File, error) {
	file, err := migrations.FS.Open(name)
	if err != nil || f.schema == defaultSchema {
		return file, err
	}
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return step{info, bytes.NewReader([]byte(qualify(string(text), f.schema)))}, nil
}

// ReadDir lists the embedded steps; it is what finding them by pattern asks for.
func (f stepsFS) ReadDir(name string) ([]fs.DirEntry, error) { return migrations.FS.ReadDir(name) }

type step struct {
	info fs.FileInfo
	*bytes.Reader
}

func (s step) Stat() (fs.FileInfo, error) { return s.info, nil }
func (s step) Close() error               { return nil }
