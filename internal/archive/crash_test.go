package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/whctl/internal/work"
)

// disk keeps a journal of what was done to the files, and can fail at one of the steps.
type disk struct {
	steps  []step
	failAt int   // the number of the step, from 1; 0: none
	part   int64 // of a write that fails, so many bytes come through
}

type step struct {
	name string
	do   byte // w: data at offset; t: cut at offset; s: fsync
	at   int64
	data []byte
}

func (d *disk) create(name string) (file, error) {
	f, err := createFile(name)
	return &journaled{file: f, disk: d, name: filepath.Base(name)}, err
}

func (d *disk) fails() bool { return len(d.steps)+1 == d.failAt }

// failed notes a step of which nothing is left but that it was tried.
func (d *disk) failed() { d.steps = append(d.steps, step{}) }

type journaled struct {
	file
	disk *disk
	name string
}

func (j *journaled) WriteAt(p []byte, at int64) (int, error) {
	short := j.disk.fails()
	if short {
		p = p[:min(int64(len(p)), j.disk.part)]
	}
	j.disk.steps = append(j.disk.steps, step{j.name, 'w', at, append([]byte(nil), p...)})
	n, err := j.file.WriteAt(p, at)
	if err == nil && short {
		err = syscall.ENOSPC
	}
	return n, err
}

func (j *journaled) Truncate(size int64) error {
	if j.disk.fails() {
		j.disk.failed()
		return syscall.EIO
	}
	j.disk.steps = append(j.disk.steps, step{j.name, 't', size, nil})
	return j.file.Truncate(size)
}

func (j *journaled) Sync() error {
	if j.disk.fails() {
		j.disk.failed()
		return syscall.EIO
	}
	j.disk.steps = append(j.disk.steps, step{j.name, 's', 0, nil})
	return nil // the machine stays up; it costs time
}

// after is what is in a file when the machine stops after the first n steps: what was
// there at its last fsync, and of what was done since the first steps, the last of them
// in part.
func (d *disk) after(n int, name string, kept int, part bool) []byte {
	var mine []step
	synced := 0
	for _, s := range d.steps[:n] {
		switch {
		case s.name != name:
		case s.do == 's':
			synced = len(mine)
		default:
			mine = append(mine, s)
		}
	}
	var content []byte
	for i, s := range mine[:min(len(mine), synced+kept)] {
		if part && i >= synced && i == synced+kept-1 {
			s.data = s.data[:len(s.data)/2]
		}
		content = s.apply(content)
	}
	return content
}

func (s step) apply(content []byte) []byte {
	if s.do == 't' {
		return append(content, make([]byte, max(0, s.at-int64(len(content))))...)[:s.at]
	}
	need := s.at + int64(len(s.data))
	content = append(content, make([]byte, max(0, need-int64(len(content))))...)
	copy(content[s.at:], s.data)
	return content
}

// story appends four batches, each twice if the first time fails, and tells after how
// many steps each was said to be on the disk.
func story(t *testing.T, d *disk) (path string, said map[string]int) {
	t.Helper()
	w := newWriter(t, t.TempDir())
	w.create = d.create
	said = map[string]int{}
	for i := 1; i <= 4; i++ {
		key := fmt.Sprint("b", i)
		mark, err := w.Append(key, batch(10*i, i))
		if err != nil {
			if !strings.Contains(err.Error(), "archive batch "+key) {
				t.Fatal(err)
			}
			// Other rows, so that what stands there is not the same by chance.
			if mark, err = w.Append(key, batch(10*i+5, i)); err != nil {
				mark, err = w.Append(key, batch(10*i+5, i))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		path, said[key] = filepath.Join(w.run.Dir, mark.File), len(d.steps)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, said
}

// A machine may stop at any moment, and keep of what was not fsynced any part, of one
// file more than of the other. What Append said is on the disk is there, and all else is
// explained. So it is when any one step has failed before.
func TestTheMachineStops(t *testing.T) {
	quiet := &disk{}
	story(t, quiet)
	for failAt := range len(quiet.steps) + 1 {
		d := &disk{failAt: failAt, part: 7}
		path, said := story(t, d)
		if r := verify(t, path); !r.OK() || sound(r) != "b1 b2 b3 b4" || r.Explained != nil {
			t.Fatalf("step %d failed: %+v", failAt, r)
		}
		reports := map[string]Report{} // many moments leave the same
		for n := range len(d.steps) + 1 {
			for kept := range 36 {
				d.stop(t, path, n, kept, said, reports)
			}
		}
	}
}

// stop looks at what a machine leaves that stops after n steps; kept chooses how much of
// what was not fsynced.
func (d *disk) stop(t *testing.T, path string, n, kept int, said map[string]int, reports map[string]Report) {
	t.Helper()
	name := filepath.Base(path)
	data, list := d.after(n, name, kept%3, kept/9%2 == 1), d.after(n, name+manifestSuffix, kept/3%3, kept/18%2 == 1)
	left := string(data) + "\x00" + string(list)
	r, known := reports[left]
	if !known {
		writeFile(t, path, data)
		writeFile(t, path+manifestSuffix, list)
		r = verify(t, path)
		reports[left] = r
	}
	if !r.OK() {
		t.Fatalf("step %d failed, stopped after %d, kept %d: %v", d.failAt, n, kept, r.Err())
	}
	for key, when := range said {
		if when <= n && !strings.Contains(" "+sound(r)+" ", " "+key+" ") {
			t.Fatalf("step %d failed, stopped after %d, kept %d: %s was said to be on the disk: %+v", d.failAt, n, kept, key, r)
		}
	}
}

// A disk may be full after any byte.
func TestTheDiskIsFull(t *testing.T) {
	frame := mustAppend(t, newWriter(t, t.TempDir()), "b2", batch(1, 2)).Bytes
	line := int64(len(readFile(t, archived(t)+manifestSuffix)) / 3)
	for step, bytes := range map[int]int64{5: frame, 7: line} { // after the four of the first batch
		for n := range bytes {
			d := &disk{failAt: step, part: n}
			w := newWriter(t, t.TempDir())
			w.create = d.create
			first := mustAppend(t, w, "b1", batch(1, 2))
			path := filepath.Join(w.run.Dir, first.File)
			if _, err := w.Append("b2", batch(3, 2)); !strings.Contains(fmt.Sprint(err), "archive batch b2: no space left on device") {
				t.Fatal(err)
			}
			if r := verify(t, path); !r.OK() || sound(r) != "b1" || r.Deliveries != 2 || (r.Explained == nil) != (n == 0 && step == 5) {
				t.Fatalf("%d bytes of step %d: %+v", n, step, r)
			}
			second := mustAppend(t, w, "b2", batch(5, 1)) // shorter, so that what it does not cover shows
			if second.Offset != first.Bytes {
				t.Fatalf("%+v after %+v", second, first)
			}
			if r := verify(t, path); !r.OK() || sound(r) != "b1 b2" || r.Explained != nil {
				t.Fatalf("%d bytes of step %d: %+v", n, step, r)
			}
		}
	}
}

// A run that gives up at a full disk leaves no more than what is whole.
func TestCloseTakesBack(t *testing.T) {
	d := &disk{failAt: 7, part: 9}
	w := newWriter(t, t.TempDir())
	w.create = d.create
	path := filepath.Join(w.run.Dir, mustAppend(t, w, "b1", batch(1, 2)).File)
	if _, err := w.Append("b2", batch(3, 2)); err == nil {
		t.Fatal("there was room")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path); !r.OK() || sound(r) != "b1" || r.Explained != nil {
		t.Errorf("%+v", r)
	}
}

// Neither file is left when the second cannot be made.
func TestTheManifestCannotBeMade(t *testing.T) {
	w := newWriter(t, t.TempDir())
	w.create = func(name string) (file, error) {
		if strings.HasSuffix(name, manifestSuffix) {
			return nil, syscall.ENOSPC
		}
		return createFile(name)
	}
	if _, err := w.Append("b1", batch(1, 1)); err == nil {
		t.Fatal("there was a manifest")
	}
	if left, err := os.ReadDir(w.run.Dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	w.create = createFile
	mustAppend(t, w, "b1", batch(1, 1))
}

// Of a manifest that was cut anywhere, all whole lines count; the rest was never
// committed.
func TestAManifestCutAnywhere(t *testing.T) {
	path := archived(t)
	whole := readFile(t, path+manifestSuffix)
	for n := range whole {
		writeFile(t, path+manifestSuffix, whole[:n])
		lines := strings.Count(string(whole[:n]), "\n")
		r := verify(t, path)
		if !r.OK() || len(r.Batches) != lines || sound(r) != "b1 b2 b3"[:max(0, 3*lines-1)] {
			t.Fatalf("%d bytes: %+v", n, r)
		}
		has(t, r.Explained, "of a batch that was never committed")
		if torn := n > 0 && whole[n-1] != '\n'; torn {
			has(t, r.Explained, "of a line that was not finished")
		}
		if got, err := read(path); err != nil || len(got) != lines {
			t.Fatalf("%d bytes: %d batches, %v", n, len(got), err)
		}
	}
}

// Of a file that was cut anywhere, the batches before are in order, and the others are
// named.
func TestAFileCutAnywhere(t *testing.T) {
	path := archived(t)
	whole, ends := readFile(t, path), []int64{}
	for _, b := range verify(t, path).Batches {
		ends = append(ends, b.Offset+b.Bytes)
	}
	for n := range int64(len(whole)) {
		writeFile(t, path, whole[:n])
		want := 0
		for want < len(ends) && ends[want] <= n {
			want++
		}
		r := verify(t, path)
		if r.OK() || len(r.Batches) != 3 || sound(r) != "b1 b2 b3"[:max(0, 3*want-1)] {
			t.Fatalf("%d bytes: %+v", n, r)
		}
		has(t, []string{r.Batches[want].Problem}, "reach past the end of the file, at "+fmt.Sprint(n)+": the file was cut off")
		got, err := read(path)
		if err == nil || len(got) != want {
			t.Fatalf("%d bytes: %d batches, %v", n, len(got), err)
		}
	}
}

// Any bit that is another is noticed, and only its batch is out.
func TestAFileDamagedAnywhere(t *testing.T) {
	path := archived(t)
	whole := readFile(t, path)
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1 << (i % 8)
		writeFile(t, path, damaged)
		got := map[string][]work.Archived{}
		err := Read(path, func(b Batch, rows []work.Archived) error {
			got[b.Key] = rows
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "the checksum is another") || !strings.Contains(err.Error(), "(problems in all: 1)") || len(got) != 2 {
			t.Fatalf("byte %d: %d batches, %v", i, len(got), err)
		}
	}
}
