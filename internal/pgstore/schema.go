package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
		return fmt.Errorf("%w: there is no schema %q yet; run: %s", work.ErrSchema, schema, migrateCommand(schema))
	case v.Version < Version:
		return fmt.Errorf("%w: schema %q is at version %d, older than this binary (version %d); run: %s", work.ErrSchema, schema, v.Version, Version, migrateCommand(schema))
	case v.Version > Version && (!v.CompatibleFrom.Valid || v.CompatibleFrom.V > Version):
		return fmt.Errorf("%w: schema %q is at version %d, newer than this binary (version %d) and not compatible with it; upgrade whctl", work.ErrSchema, schema, v.Version, Version)
	}
	return nil
}

// migrateCommand is what brings the schema up to this binary.
func migrateCommand(schema string) string {
	if schema == defaultSchema {
		return "whctl migrate up"
	}
	return "whctl migrate up --schema " + schema
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// keywords are the words of SQL that PostgreSQL would quote where they are names: all but
// the unreserved ones. Names are written without quotes here.
var keywords = strings.Fields(`
all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast char character check coalesce
collate collation column concurrently constraint create cross current_catalog current_date current_role current_schema current_time current_timestamp
current_user dec decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant
greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array json_arrayagg
json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral leading least left like limit localtime
localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay
placing position precision primary real references returning right row select session_user setof similar smallint some substring symmetric system_user
table tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic verbose when where window with
xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`)

// checkSchemaName refuses, wrapping work.ErrConfig, a schema whose name cannot stand
// without quotes, or that belongs to the server or to everybody.
func checkSchemaName(name string) error {
	why := ""
	switch {
	case !schemaName.MatchString(name):
		why = "want a lower-case name of letters, digits and _"
	case name == "public", name == "information_schema", strings.HasPrefix(name, "pg_"):
		why = "whctl needs a schema of its own"
	case slices.Contains(keywords, name):
		why = "it is a word of SQL"
	default:
		return nil
	}
	return fmt.Errorf("%w: schema %q: %s", work.ErrConfig, name, why)
}
