package pgstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/testbed"
	"example.com/whctl/internal/work"
)

// Names are written without quotes, so that the server must not want any.
func TestSchemaNamesThatAreRefused(t *testing.T) {
	d := testbed.EmptyDB(t)
	words := strings.Fields(testbed.QueryString(t, d, `SELECT string_agg(word, ' ') FROM pg_get_keywords() WHERE quote_ident(word) <> word`))
	if !slices.Contains(words, "user") {
		t.Fatalf("the server's words: %v", words)
	}
	for _, name := range append(words, "public", "pg_catalog", "pg_mine", "information_schema", "Hooks", "a-b", "a b", `a"b`, "é", "1a", strings.Repeat("a", 64)) {
		_, opened := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: name})
		_, printed := pgstore.MigrationSQL(name)
		if !errors.Is(opened, work.ErrConfig) || !errors.Is(printed, work.ErrConfig) {
			t.Errorf("schema %q: %v, %v", name, opened, printed)
		}
	}
	for _, name := range strings.Fields(testbed.QueryString(t, d, `SELECT string_agg(word, ' ') FROM pg_get_keywords() WHERE quote_ident(word) = word`)) {
		if _, err := pgstore.MigrationSQL(name); err != nil {
			t.Errorf("schema %q: %v", name, err)
		}
	}
}

// What others have in the schema is not ours to grant or to revoke.
func TestMigrateLeavesTheFunctionsOfOthersAlone(t *testing.T) {
	d := testbed.EmptyDB(t)
	testbed.Exec(t, d, `
CREATE SCHEMA shop AUTHORIZATION app;
CREATE FUNCTION shop.price() RETURNS int LANGUAGE sql RETURN 1;
GRANT EXECUTE ON FUNCTION shop.price() TO PUBLIC;
ALTER FUNCTION shop.price() OWNER TO app`)
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: d.URL, Schema: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.MigrateUp(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := testbed.QueryString(t, d, `
SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p
WHERE p.pronamespace = 'shop'::regnamespace
  AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)`); got != "class_word price reason_word state_word" {
		t.Errorf("everybody may call: %s", got)
	}
}

func TestMigrateRefusesADatabaseThatIsNotUTF8(t *testing.T) {
	d := testbed.EmptyDB(t)
	name := d.Name + "_latin"
	testbed.Exec(t, d, `CREATE DATABASE `+name+` OWNER app ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
	t.Cleanup(func() {
		if _, err := d.Admin.Exec(`DROP DATABASE ` + name + ` WITH (FORCE)`); err != nil { //nolint:noctx // the test's context has ended
			t.Error(err)
		}
	})
	s := openURL(t, strings.Replace(d.URL, d.Name, name, 1))
	if _, err := s.MigrateUp(t.Context(), false); !errors.Is(err, work.ErrConfig) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("error %v, want work.ErrConfig", err)
	}
	if v, err := s.ReadSchemaVersion(t.Context()); err != nil || v.Version != 0 {
		t.Errorf("version %d, %v", v.Version, err)
	}
}

func TestIsJSONIsNotForParallelWorkers(t *testing.T) {
	d := testbed.DB(t)
	if got := testbed.QueryString(t, d, `SELECT proparallel::text FROM pg_proc WHERE oid = 'whctl.is_json(bytea)'::regprocedure`); got != "u" {
		t.Errorf("is_json is marked %s: what catches an exception is a subtransaction", got)
	}
}
