package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/work"
)

// Version is the schema version that this binary was written for.
const Version = 1

// SchemaVersion is what the database says about itself.
type SchemaVersion struct {
	Version        int64           `db:"version"`         // 0: no schema
	CompatibleFrom sql.Null[int64] `db:"compatible_from"` // of the oldest binary that may work on it, if it says so
}

const schemaVersionSQL = `
SELECT version, compatible_from FROM whctl.schema_version ORDER BY version DESC LIMIT 1`

// ReadSchemaVersion reads what the database says about itself.
func (s *Store) ReadSchemaVersion(ctx context.Context) (SchemaVersion, error) {
	var v SchemaVersion
	err := s.read(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &v, s.sql(schemaVersionSQL))
	})
	if errors.Is(err, work.ErrSchema) || errors.Is(err, work.ErrNotFound) {
		return SchemaVersion{}, nil
	}
	return v, err
}

// CheckSchema refuses, wrapping work.ErrSchema, a schema that is missing, older than
// this binary, or newer without saying that this binary may work on it.
func (s *Store) CheckSchema(ctx context.Context) error {
	v, err := s.ReadSchemaVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	return v.check(s.schema)
}

func (v SchemaVersion) check(schema string) error {
	switch {
	case v.Version == 0:
		return fmt.Errorf("%w: there is no schema %q yet; run: whctl migrate up", work.ErrSchema, schema)
	case v.Version < Version:
		return fmt.Errorf("%w: schema %q is at version %d, older than this binary (version %d); run: whctl migrate up", work.ErrSchema, schema, v.Version, Version)
	case v.Version > Version && (!v.CompatibleFrom.Valid || v.CompatibleFrom.V > Version):
		return fmt.Errorf("%w: schema %q is at version %d, newer than this binary (version %d) and not compatible with it; upgrade whctl", work.ErrSchema, schema, v.Version, Version)
	}
	return nil
}
