package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/whctl/internal/work"
)

func TestAnArchiveReadsAsItWasWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	w := newWriter(t, dir)
	want := map[string][]work.Archived{"b1": batch(1, 1), "b2": batch(2, 50), "b3": busy(150)}
	var marks []work.ArchiveMark
	var end int64
	for _, key := range []string{"b1", "b2", "b3"} {
		mark := mustAppend(t, w, key, want[key])
		if mark.Offset != end || mark.Bytes < 1 || mark.Deliveries != len(want[key]) || mark.Attempts != len(want[key]) || len(mark.SHA256) != 32 {
			t.Fatalf("%+v, and the batch before ended at %d", mark, end)
		}
		end += mark.Bytes
		marks = append(marks, mark)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append("b4", batch(1, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	path := filepath.Join(dir, marks[0].File)
	for name, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, path: 0o600, path + manifestSuffix: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	r := verify(t, path)
	if !r.OK() || r.Err() != nil || r.Explained != nil || r.Bytes != end || r.Deliveries != 201 || r.Attempts != 201 || sound(r) != "b1 b2 b3" {
		t.Errorf("%+v", r)
	}
	for i, b := range r.Batches {
		if diff := cmp.Diff(marks[i], b.ArchiveMark); diff != "" {
			t.Error(diff)
		}
	}
	got, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	for key, rows := range want {
		same(t, got[key], rows)
	}
}

// People look at archives with the tool that every system has.
func TestZstdReadsTheWholeFile(t *testing.T) {
	tool, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed")
	}
	out, err := exec.CommandContext(t.Context(), tool, "-dc", archived(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(out, []byte("\n"))
	if len(lines) != 7 || len(lines[6]) != 0 {
		t.Fatalf("%d lines: %s", len(lines), out)
	}
	for i, n := range []int{10, 20, 21, 30, 31, 32} {
		a, err := decodeRow(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		same(t, []work.Archived{a}, batch(n, 1))
	}
}

func TestAManifestLine(t *testing.T) {
	path := archived(t)
	line, _, _ := strings.Cut(string(readFile(t, path+manifestSuffix)), "\n")
	if want := regexp.MustCompile(`^\{"batch_key":"b1","offset":0,"bytes":\d+,"sha256":"[0-9a-f]{64}","deliveries":1,"attempts":1\}$`); !want.MatchString(line) {
		t.Error(line)
	}
}

func TestFileNames(t *testing.T) {
	for policy, want := range map[string]string{
		"delivered":              `delivered-v3-20261101T120000\.123456Z-[0-9a-f]{12}\.ndjson\.zst`,
		"../../etc/cron.d/x y\n": `etc-cron-d-x-y--v3-.*`,
		"":                       `policy-v3-.*`,
		"...":                    `policy-v3-.*`,
		"ümläut_1":               `ml-ut_1-v3-.*`,
		strings.Repeat("a", 300): `a{64}-v3-.*`,
	} {
		got := fileName(Run{Policy: policy, Version: 3, Cutoff: noon})
		if !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%q: %s", policy, got)
		}
	}
	if one, two := fileName(Run{Policy: "p"}), fileName(Run{Policy: "p"}); one == two {
		t.Error("two runs write the same file")
	}
}

// What cannot be written to is known before anything is deleted.
func TestDirectoriesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), nil)
	all := map[string]string{
		"":                               `"" is no absolute path`,
		"relative":                       `"relative" is no absolute path`,
		filepath.Join(dir, "file"):       "file is no directory",
		filepath.Join(dir, "file", "in"): "not a directory",
		filepath.Join(dir, strings.Repeat("n", 300)): "file name too long",
	}
	if os.Geteuid() != 0 { // whom no mode keeps out
		closed := filepath.Join(dir, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		all[closed] = "permission denied"
	}
	for bad, want := range all {
		w, err := NewWriter(Run{Dir: bad, Policy: "dead", Version: 1, Cutoff: noon})
		if !errors.Is(err, work.ErrConfig) || w != nil || !strings.Contains(err.Error(), "archive directory of policy dead: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestNoFileWithoutABatch(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	bad := batch(1, 2)
	bad[1].Subject = "\xff"
	for want, rows := range map[string][]work.Archived{"no rows": nil, "delivery " + bad[1].DeliveryID + " cannot be archived: subject": bad} {
		if mark, err := w.Append("b", rows); err == nil || !strings.Contains(err.Error(), "archive batch b: "+want) || mark.File != "" {
			t.Errorf("%+v, %v", mark, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", maxBatchKey+1)} {
		if _, err := w.Append(key, batch(1, 1)); err == nil {
			t.Errorf("a key of %d bytes was taken", len(key))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// The longest key has a line that can be read, also one that escapes make longer.
func TestTheLongestKey(t *testing.T) {
	w := newWriter(t, t.TempDir())
	key := strings.Repeat("\x01", maxBatchKey)
	mark := mustAppend(t, w, key, batch(1, 1))
	if r := verify(t, filepath.Join(w.run.Dir, mark.File)); !r.OK() || sound(r) != key {
		t.Errorf("%+v", r)
	}
}

// A batch that is larger than what may be read back is refused, and takes no other with it.
func TestABatchThatIsTooLarge(t *testing.T) {
	w := newWriter(t, t.TempDir())
	w.limit = 3000
	mustAppend(t, w, "b1", batch(1, 2))
	if _, err := w.Append("b2", batch(1, 10)); err == nil || !strings.Contains(err.Error(), "more than 3000 bytes in 4 of 10 rows: make the batches of the policy smaller") {
		t.Error(err)
	}
	mark := mustAppend(t, w, "b3", batch(1, 1))
	if r := verify(t, filepath.Join(w.run.Dir, mark.File)); !r.OK() || sound(r) != "b1 b3" || r.Explained != nil {
		t.Errorf("%+v", r)
	}
}

// A manifest that has no room for another line is the end of its file, not of the run.
func TestAFullManifest(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	one := mustAppend(t, w, "b1", batch(1, 1))
	path := filepath.Join(dir, one.File)
	lines := readFile(t, path+manifestSuffix)
	w.list.end = maxManifest - maxEntry + 1
	two := mustAppend(t, w, "b2", batch(2, 1))
	if two.File == one.File || two.Offset != 0 {
		t.Errorf("%+v after %+v", two, one)
	}
	writeFile(t, path+manifestSuffix, lines)
	for file, key := range map[string]string{one.File: "b1", two.File: "b2"} {
		if r := verify(t, filepath.Join(dir, file)); !r.OK() || sound(r) != key {
			t.Errorf("%+v", r)
		}
	}
}

// A batch that was rolled back is archived again under its key; both can be told apart.
func TestABatchTwice(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	one := mustAppend(t, w, "b1", batch(1, 2))
	two := mustAppend(t, w, "b1", batch(1, 1))
	path := filepath.Join(dir, one.File)
	r := verify(t, path)
	if !r.OK() || sound(r) != "b1 b1" {
		t.Errorf("%+v", r)
	}
	has(t, r.Explained, fmt.Sprintf(`batch "b1" stands at 0 and again at %d: the first time its transaction was rolled back`, two.Offset))
	var offsets []int64
	err := Read(path, func(b Batch, rows []work.Archived) error {
		offsets = append(offsets, b.Offset)
		if len(rows) != b.Deliveries {
			t.Errorf("%d rows of %d", len(rows), b.Deliveries)
		}
		return nil
	})
	if diff := cmp.Diff([]int64{0, two.Offset}, offsets); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// Two runs of one policy, with one cutoff, at the same time.
func TestWritersShareADirectory(t *testing.T) {
	dir := t.TempDir()
	a, b := newWriter(t, dir), newWriter(t, dir)
	one, two := mustAppend(t, a, "b1", batch(1, 1)), mustAppend(t, b, "b2", batch(2, 1))
	if one.File == two.File {
		t.Fatal("one file")
	}
	// Also before it is closed: a sweep may be stopped long before that.
	for file, key := range map[string]string{one.File: "b1", two.File: "b2"} {
		if r := verify(t, filepath.Join(dir, file)); !r.OK() || sound(r) != key || r.Explained != nil {
			t.Errorf("%+v", r)
		}
	}
}
