package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/whctl/internal/checker"
	"example.com/whctl/internal/testbed"
)

// archived is the configuration of a policy that archives, and the folder.
func (b *theBench) archived() string {
	b.t.Helper()
	dir := filepath.Join(b.t.TempDir(), "archive")
	b.retention("  all: {version: 1, states: [delivered, dead, cancelled, discarded], keep: 30d, batch: 100, archive: {dir: " + dir + "}}\n")
	return dir
}

func archiveIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.zst"))
	if err != nil || len(files) != 1 {
		t.Fatalf("archives %v, %v", files, err)
	}
	return files[0]
}

// everything is all that is stored of finished deliveries, but for when they came to
// their end.
const everything = `
SELECT md5(string_agg(e.delivery_id || e.subject || e.event_version || e.event_at || e.created_at || encode(e.payload, 'hex') || d.state || d.generation || d.attempts
  || coalesce(d.class, 0) || coalesce(d.reason, 0) || coalesce((SELECT string_agg(a.attempt_id::text || a.started_at || a.finished_at || a.class || a.worker, ',' ORDER BY a.attempt)
     FROM whctl.attempts a WHERE a.delivery_id = d.id), ''), '|' ORDER BY e.delivery_id))
FROM whctl.deliveries d JOIN whctl.envelopes e ON e.id = d.id`

func TestArchivedRowsComeBack(t *testing.T) {
	b := newBench(t)
	dir := b.archived()
	for _, state := range []string{"delivered", "dead", "cancelled", "discarded"} {
		b.finished(70, state, "40 days", 3)
	}
	testbed.Plant(t, b.db, `UPDATE whctl.envelopes SET payload = decode('00ff225c', 'hex') WHERE id % 3 = 0`)
	before := testbed.QueryString(t, b.db, everything)
	if s := b.sweep(); s.Deleted.Deliveries != 280 || s.Deleted.Attempts != 840 || b.left() != 0 {
		t.Fatalf("%+v", s)
	}
	file := archiveIn(t, dir)
	var v struct {
		OK      bool
		Batches []struct{ Ledger string }
	}
	if err := json.Unmarshal([]byte(b.must(0, "sweep", "archive", "verify", file, "-o", "json").Stdout), &v); err != nil || !v.OK || len(v.Batches) != 3 || v.Batches[2].Ledger != "committed" {
		t.Errorf("%+v, %v", v, err)
	}
	if r := b.must(64, "sweep", "archive", "restore", file); !strings.Contains(r.Stderr, "--reason") {
		t.Error(r.Stderr)
	}
	b.must(0, "sweep", "archive", "restore", file, "--reason", "a claim came in", "--operator", "ana")
	if after := testbed.QueryString(t, b.db, everything); after != before {
		t.Error("what came back is not what went")
	}
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM whctl.audit_log WHERE action = 'restore' AND operator = 'ana' AND reason = 'a claim came in'`); n != 280 {
		t.Errorf("%d rows in the audit log", n)
	}
	var again struct{ Restored, Exists int }
	if err := json.Unmarshal([]byte(b.must(0, "sweep", "archive", "restore", file, "--reason", "again", "-o", "json").Stdout), &again); err != nil || again.Restored != 0 || again.Exists != 280 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if s := b.sweep(); s.Deleted.Deliveries != 0 {
		t.Errorf("the next sweep took %d of them", s.Deleted.Deliveries)
	}
	b.must(0, "sweep", "verify")
	// The case's own rows were put in as discarded and cancelled, by nobody.
	testbed.CheckWith(t, b.db, []checker.Option{checker.Without("discarded_without_audit", "cancelled_without_audit")})
}

// In a schema of another name all of it works alike, and the archive of one schema is no
// archive of another.
func TestAnArchiveOfAnotherSchema(t *testing.T) {
	b := newBench(t)
	dir := b.archived()
	b.finished(5, "dead", "40 days", 2)
	testbed.Exec(t, b.db, `CREATE SCHEMA other`)
	testbed.Exec(t, b.db, `GRANT ALL ON SCHEMA other TO app`)
	b.sweep()
	file := archiveIn(t, dir)
	b.must(0, "--schema", "other", "migrate", "up")
	if r := b.must(3, "--schema", "other", "sweep", "archive", "verify", file); !strings.Contains(r.Stdout, "is it the right one?") {
		t.Error(r.Stdout)
	}
	testbed.Exec(t, b.db, `INSERT INTO other.destinations (name, url) VALUES ('old', 'https://old.example.com/')`)
	b.must(0, "--schema", "other", "sweep", "archive", "restore", file, "--reason", "moved", "--operator", "ana")
	if n := testbed.QueryInt(t, b.db, `SELECT count(*) FROM other.deliveries d, other.audit_log l WHERE d.state = 2 AND l.operator = 'ana'`); n != 25 {
		t.Errorf("%d, want 5 dead letters and 5 acts of ana", n)
	}
}

// A batch that was written out and not committed is explained, and its rows are still
// there; one that the ledger has and the archive has not is found out.
func TestAnArchiveExplainsWhatItHolds(t *testing.T) {
	b := newBench(t)
	dir := b.archived()
	b.finished(100, "delivered", "40 days", 1)
	testbed.Exec(t, b.db, `ALTER TABLE whctl.sweep_batches ADD CONSTRAINT no CHECK (false) NOT VALID`)
	b.must(1, "sweep")
	if b.left() != 100 {
		t.Fatalf("%d left", b.left())
	}
	file := archiveIn(t, dir)
	if r := b.must(0, "sweep", "archive", "verify", file); !strings.Contains(r.Stdout, "rolled back") {
		t.Error(r.Stdout)
	}
	testbed.Exec(t, b.db, `ALTER TABLE whctl.sweep_batches DROP CONSTRAINT no`)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b.sweep()
	file = archiveIn(t, dir)
	b.must(0, "sweep", "archive", "verify", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	b.must(3, "sweep", "archive", "verify", file)
	b.must(3, "sweep", "archive", "verify", file, "--offline")
	if err := os.WriteFile(file+".manifest.jsonl", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.must(3, "sweep", "archive", "verify", file); !strings.Contains(r.Stdout, "its 100 deliveries are gone") {
		t.Error(r.Stdout)
	}
}

// Nothing goes that cannot be written out first.
func TestWithoutItsArchiveNothingGoes(t *testing.T) {
	b := newBench(t)
	dir := b.archived()
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // where the folder should be
		t.Fatal(err)
	}
	b.finished(10, "delivered", "40 days", 1)
	if r := b.must(78, "sweep"); !strings.Contains(r.Stderr, dir) {
		t.Error(r.Stderr)
	}
	if b.left() != 10 {
		t.Errorf("%d left", b.left())
	}
}
