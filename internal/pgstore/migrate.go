package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"example.com/whctl/internal/work"
	"example.com/whctl/migrations"
)

// Step is one migration and whether it has been applied.
type Step struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero: not yet
}

// migrateWait is how long one migration waits for another, as in migrateLockSettingsSQL.
const migrateWait = 5 * time.Minute

// migrateLock is held by whoever migrates. It belongs to a transaction, not to a
// session: behind a pooler a session's lock would end up with a stranger.
const (
	migrateLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('whctl migrate ' || $1, 0))`
	// The lock is kept in an otherwise idle transaction for as long as the steps
	// take, and waits for another migration to end, not for a table.
	migrateLockSettingsSQL = `
SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = '5min'`
	createSchemaSQL = `CREATE SCHEMA IF NOT EXISTS `

	encodingSQL = `SELECT current_setting('server_encoding')`
)

// MigrateUp applies the steps that are missing, under a lock, each in a transaction
// of its own, and returns those it applied. Two at once are safe: one waits. Ended by
// ctx, it says why with the context's cause.
func (s *Store) MigrateUp(ctx context.Context, roles bool) ([]Step, error) {
	// Neither the wait nor a step is as short as any other statement.
	usual := s.limit.Load()
	s.limit.Store(max(usual, int64(migrateWait+DefaultIOTimeout)))
	defer s.limit.Store(usual)
	done, err := s.migrate(ctx, roles)
	if err != nil && ctx.Err() != nil {
		return done, fmt.Errorf("migrate: %w", context.Cause(ctx))
	}
	return done, err
}

func (s *Store) migrate(ctx context.Context, roles bool) ([]Step, error) {
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
	if err := checkEncoding(ctx, tx); err != nil {
		return nil, err
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

// checkEncoding refuses a database that would keep a text, such as an event's name, in
// other bytes than those that came in, or not at all.
func checkEncoding(ctx context.Context, tx *sqlx.Tx) error {
	var encoding string
	if err := tx.GetContext(ctx, &encoding, encodingSQL); err != nil {
		return fmt.Errorf("ask for the encoding: %w", fault(err))
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: the database's encoding is %s: whctl needs UTF8; create the database with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
			work.ErrConfig, encoding)
	}
	return nil
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

func stepsTable(schema string) string { return schema + ".migrations" }

func (s *Store) provider() (*goose.Provider, error) {
	store, err := database.NewStore(database.DialectPostgres, stepsTable(s.schema))
	if err != nil {
		return nil, fmt.Errorf("name the table of migrations: %w", err)
	}
	p, err := goose.NewProvider(database.DialectCustom, s.db.DB, stepsFS{schema: s.schema},
		goose.WithStore(stepStore{store}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
}

// stepStore is the library's record of the steps, with ids like those of every other
// table of the schema: the library's own are 32 bits wide.
type stepStore struct{ database.Store }

const createStepsSQL = `
CREATE TABLE %s (
    id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp     timestamp NOT NULL DEFAULT now()
)`

// CreateVersionTable makes the table that the library expects.
func (s stepStore) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf(createStepsSQL, s.Tablename()))
	return err
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
