package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"example.com/whctl/internal/work"
)

const (
	// maxFrame bounds what a batch is before compression, in bytes, and so what reading
	// one can take of memory. A row with the largest payload that is configurable (256 MiB,
	// written as twice as much at most) has room.
	maxFrame = 1 << 30
	// maxManifest bounds a manifest, in bytes, and so what a report can take of memory.
	// It has room for more than 200,000 batches.
	maxManifest = 64 << 20
	// maxBatchKey bounds a batch key, in bytes.
	maxBatchKey = 1024
	// window is how far back a frame refers, in bytes. Every decoder should have twice as
	// much (RFC 8878, section 3.1.1.1.2).
	window = 4 << 20
)

// Run is what one archive belongs to: one run of one policy.
type Run struct {
	Dir     string // absolute; made with mode 0700 if it is missing
	Policy  string
	Version int
	Cutoff  time.Time
}

// Writer adds batches to the archive of a run. It is for one goroutine.
type Writer struct {
	run    Run
	zstd   *zstd.Encoder
	row    []byte // of the row under way
	name   string // of the file
	data   part
	list   part // the manifest
	limit  int  // of a batch before compression, in bytes
	torn   bool // something may stand behind the ends, or the disk may hold something else there
	create func(name string) (file, error)
}

// file is as much of an os.File as a writer needs.
type file interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// part is one of the two files. What stands before end is whole, and on the disk.
type part struct {
	file
	end int64
}

// NewWriter makes sure that files can be made in the run's directory, so that this is
// known before anything is deleted. An error wraps work.ErrConfig. The archive itself is
// made with the first batch.
func NewWriter(run Run) (*Writer, error) {
	if err := prepare(run.Dir); err != nil {
		return nil, fmt.Errorf("%w: archive directory of policy %s: %w (the user that sweeps must be able to write there)", work.ErrConfig, run.Policy, err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &Writer{run: run, zstd: encoder, limit: maxFrame, create: createFile}, nil
}

// Append writes one batch and returns when it is on the disk. After an error, as of a
// full disk, the batches before are as they were, and what was written of this one is
// taken back by the next Append or Close.
//
// A batch whose transaction is rolled back stays; the same batch key may be appended
// again, and the mark in the ledger tells which one was committed.
func (w *Writer) Append(batchKey string, rows []work.Archived) (work.ArchiveMark, error) {
	mark, err := w.append(batchKey, rows)
	if err != nil {
		return work.ArchiveMark{}, fmt.Errorf("archive batch %s: %w", batchKey, err)
	}
	return mark, nil
}

func (w *Writer) append(batchKey string, rows []work.Archived) (work.ArchiveMark, error) {
	switch {
	case w.zstd == nil:
		return work.ArchiveMark{}, os.ErrClosed
	case batchKey == "" || len(batchKey) > maxBatchKey:
		return work.ArchiveMark{}, fmt.Errorf("a batch key has 1 to %d bytes", maxBatchKey)
	case len(rows) == 0:
		return work.ArchiveMark{}, errors.New("no rows")
	}
	if err := w.ready(); err != nil {
		return work.ArchiveMark{}, err
	}
	w.torn = true
	mark, err := w.frame(rows)
	if err != nil {
		return work.ArchiveMark{}, err
	}
	if err := w.data.Sync(); err != nil {
		return work.ArchiveMark{}, err
	}
	line, err := entryOf(batchKey, mark).line()
	if err != nil {
		return work.ArchiveMark{}, err
	}
	if _, err := w.list.WriteAt(line, w.list.end); err != nil {
		return work.ArchiveMark{}, err
	}
	if err := w.list.Sync(); err != nil {
		return work.ArchiveMark{}, err
	}
	w.data.end += mark.Bytes
	w.list.end += int64(len(line))
	w.torn = false
	return mark, nil
}

// ready makes a file where there is none, or none with room, and takes back what an
// Append before left.
func (w *Writer) ready() error {
	if w.list.end > maxManifest-maxEntry {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.data.file == nil {
		return w.begin()
	}
	return w.takeBack()
}

// begin makes both files, and their names last, before anything is in them: a file with
// something in it and no manifest has lost it.
func (w *Writer) begin() error {
	name := fileName(w.run)
	path := filepath.Join(w.run.Dir, name)
	data, err := w.create(path)
	if err != nil {
		return err
	}
	list, err := w.create(path + manifestSuffix)
	if err != nil {
		return errors.Join(err, data.Close(), os.Remove(path))
	}
	w.name, w.data, w.list = name, part{file: data}, part{file: list}
	if err := syncDir(w.run.Dir); err != nil {
		return errors.Join(err, w.finish())
	}
	return nil
}

// takeBack cuts both files at their ends. The manifest goes first, and to the disk, for
// a line that has come there must not outlive the bytes that it speaks of.
func (w *Writer) takeBack() error {
	if !w.torn {
		return nil
	}
	if err := w.list.Truncate(w.list.end); err != nil {
		return err
	}
	if err := w.list.Sync(); err != nil {
		return err
	}
	if err := w.data.Truncate(w.data.end); err != nil {
		return err
	}
	w.torn = false
	return nil
}

// frame writes rows behind the end of the data.
func (w *Writer) frame(rows []work.Archived) (work.ArchiveMark, error) {
	mark := work.ArchiveMark{File: w.name, Offset: w.data.end, Deliveries: len(rows)}
	sum := sha256.New()
	out := &counter{to: io.MultiWriter(io.NewOffsetWriter(w.data, w.data.end), sum)}
	w.zstd.Reset(out)
	size := 0
	for i := range rows {
		var err error
		if w.row, err = appendRow(w.row[:0], &rows[i]); err != nil {
			return mark, fmt.Errorf("delivery %s cannot be archived: %w", rows[i].DeliveryID, err)
		}
		if size += len(w.row); size > w.limit {
			return mark, fmt.Errorf("more than %d bytes in %d of %d rows: make the batches of the policy smaller", w.limit, i+1, len(rows))
		}
		if _, err := w.zstd.Write(w.row); err != nil {
			return mark, err
		}
		mark.Attempts += len(rows[i].History)
	}
	if err := w.zstd.Close(); err != nil {
		return mark, err
	}
	mark.Bytes, mark.SHA256 = out.n, sum.Sum(nil)
	return mark, nil
}

// Close ends the archive. One without a batch is removed. To close again does nothing.
func (w *Writer) Close() error {
	if w.zstd == nil {
		return nil
	}
	w.zstd = nil // it has no goroutines and no memory outside of the collector's
	if err := w.finish(); err != nil {
		return fmt.Errorf("close archive %s: %w", filepath.Join(w.run.Dir, w.name), err)
	}
	return nil
}

func (w *Writer) finish() error {
	if w.data.file == nil {
		return nil
	}
	err := errors.Join(w.takeBack(), w.data.Close(), w.list.Close())
	if w.data.end == 0 {
		path := filepath.Join(w.run.Dir, w.name)
		err = errors.Join(err, os.Remove(path+manifestSuffix), os.Remove(path))
	}
	w.data, w.list, w.torn = part{}, part{}, false
	return err
}

// counter counts what goes through it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
