package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"example.com/whctl/internal/work"
)

// Verify holds an archive against its manifest, also one that a run is writing. The
// error is that it could not be looked at; what is wrong with it stands in the report.
// It takes memory for one line of the archive, of 1 GiB at most, and for the report.
func Verify(path string) (Report, error) { return walk(path, maxFrame, nil) }

// Read hands out the rows of every batch that is in order, in the order of the manifest;
// rows are each's to keep. Whether the batch was committed is for the ledger to say: its
// mark is there. An error of each ends the reading and is returned as it is. Other
// batches are left out, and make an error at the end.
func Read(path string, each func(b Batch, rows []work.Archived) error) error {
	r, err := walk(path, maxFrame, each)
	if err != nil {
		return err
	}
	return r.Err()
}

// reader goes through an archive.
type reader struct {
	report  Report
	data    *os.File
	list    *bufio.Reader
	line    []byte // of the manifest
	row     []byte
	buffer  *bufio.Reader
	zstd    *zstd.Decoder
	limit   int              // of a batch after decompression, in bytes
	end     int64            // of the last batch that had its place
	astray  bool             // the last line of the manifest had no place in the file
	offsets map[string]int64 // of the batches by their keys
}

func walk(path string, limit int, each func(Batch, []work.Archived) error) (Report, error) {
	r := reader{report: Report{File: path}, limit: limit, offsets: map[string]int64{}}
	list, size, err := openRegular(path + manifestSuffix)
	bare := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !bare:
		return r.report, fmt.Errorf("archive: %w", err)
	case size > maxManifest:
		return r.report, errors.Join(fmt.Errorf("archive: %s%s has %d bytes, more than whctl writes", path, manifestSuffix, size), list.Close())
	case !bare:
		defer func() { _ = list.Close() }()
	}
	// The data second: where a run is writing, the file is then never behind the manifest.
	if r.data, r.report.Bytes, err = openRegular(path); err != nil {
		return r.report, fmt.Errorf("archive: %w", err)
	}
	defer func() { _ = r.data.Close() }()
	if bare {
		r.withoutManifest()
		return r.report, nil
	}
	if r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window)); err != nil {
		return r.report, fmt.Errorf("archive: %w", err)
	}
	defer r.zstd.Close()
	r.list, r.buffer = bufio.NewReader(io.LimitReader(list, size)), bufio.NewReaderSize(nil, 64<<10)
	err = r.batches(each)
	return r.report, err
}

func openRegular(path string) (*os.File, int64, error) {
	// Before it is opened: to open a pipe would wait for somebody.
	if info, err := os.Stat(path); err != nil {
		return nil, 0, err
	} else if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (r *reader) withoutManifest() {
	if r.report.Bytes == 0 {
		r.explain("the file is empty and has no manifest: a run that stops before its first batch leaves that")
		return
	}
	r.problem("%s%s is missing: nothing vouches for the %d bytes of the file (zstd -dc reads them; put the manifest beside it)",
		filepath.Base(r.report.File), manifestSuffix, r.report.Bytes)
}

func (r *reader) problem(format string, a ...any) {
	r.report.Problems = append(r.report.Problems, fmt.Sprintf(format, a...))
}

func (r *reader) explain(format string, a ...any) {
	r.report.Explained = append(r.report.Explained, fmt.Sprintf(format, a...))
}

// batches goes through the manifest.
func (r *reader) batches(each func(Batch, []work.Archived) error) error {
	for number := 1; ; number++ {
		var err error
		r.line, err = readLine(r.list, r.line, maxEntry)
		if errors.Is(err, io.EOF) {
			r.tail(number)
			return nil
		}
		if errors.Is(err, errLong) {
			// Nothing tells where the next one begins.
			r.problem("line %d of the manifest: %v; what follows was not looked at", number, err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("archive: manifest: %w", err)
		}
		b, err := parseEntry(r.line, filepath.Base(r.report.File))
		if err != nil {
			r.astray = true
			r.problem("line %d of the manifest cannot be read: %v", number, err)
			continue
		}
		if err := r.batch(b, each); err != nil {
			return err
		}
	}
}

// batch looks at one, and hands it out if it is in order.
func (r *reader) batch(b Batch, each func(Batch, []work.Archived) error) error {
	var rows []work.Archived
	b.Problem = r.place(b)
	if b.Problem == "" {
		var err error
		if rows, err = r.examine(b, each != nil); err != nil {
			b.Problem = err.Error()
		}
	}
	r.report.Batches = append(r.report.Batches, b)
	if b.Problem != "" {
		return nil
	}
	r.report.Deliveries += int64(b.Deliveries)
	r.report.Attempts += int64(b.Attempts)
	if before, ok := r.offsets[b.Key]; ok {
		r.explain("batch %q stands at %d and again at %d: the first time its transaction was rolled back, or it is not known how it ended; the ledger says which one counts",
			b.Key, before, b.Offset)
	}
	r.offsets[b.Key] = b.Offset
	if each == nil {
		return nil
	}
	return each(b, rows)
}

// place says what is wrong with where b stands. Every byte of the file is looked at once
// at most, whatever the manifest says.
func (r *reader) place(b Batch) string {
	r.astray = true
	if b.Offset+b.Bytes > r.report.Bytes {
		return fmt.Sprintf("%d bytes at %d reach past the end of the file, at %d: the file was cut off", b.Bytes, b.Offset, r.report.Bytes)
	}
	if b.Offset < r.end {
		return fmt.Sprintf("%d bytes at %d overlap the batch before, which ends at %d", b.Bytes, b.Offset, r.end)
	}
	if b.Offset > r.end {
		r.problem("the bytes from %d to %d are of no batch that the manifest names", r.end, b.Offset)
	}
	r.end, r.astray = b.Offset+b.Bytes, false
	return ""
}

// tail explains what stands behind the last batch. A run writes the batch, then its
// line, and the rows go only then: what is not whole was not committed.
func (r *reader) tail(lines int) {
	if len(r.line) > 0 {
		r.explain("the manifest ends with %d bytes of a line that was not finished: a stop in the middle of writing leaves that, and the batch was never committed", len(r.line))
	}
	rest := r.report.Bytes - r.end
	switch {
	case rest > 0 && r.astray:
		r.problem("the bytes from %d to %d are of no batch that the manifest names", r.end, r.report.Bytes)
	case rest > 0:
		r.explain("%d bytes at %d of a batch that was never committed: a stop in the middle of writing leaves that, and a run that is writing now has it", rest, r.end)
	case lines == 1 && r.end == 0:
		r.explain("there is no batch in it: a run that stops before its first one leaves that")
	}
}

// examine reads the batch: first whether it is what was written, only then what it says.
func (r *reader) examine(b Batch, keep bool) ([]work.Archived, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r.data, b.Offset, b.Bytes)); err != nil {
		return nil, err
	}
	if !bytes.Equal(sum.Sum(nil), b.SHA256) {
		return nil, errors.New("the checksum is another: the file or its manifest was changed or damaged")
	}
	if err := r.zstd.Reset(io.NewSectionReader(r.data, b.Offset, b.Bytes)); err != nil {
		return nil, err
	}
	// One more than allowed, so that too much is seen to be.
	limited := &io.LimitedReader{R: r.zstd, N: int64(r.limit) + 1}
	r.buffer.Reset(limited)
	var rows []work.Archived
	deliveries, attempts := 0, 0
	for {
		var err error
		r.row, err = readLine(r.buffer, r.row, r.limit)
		if limited.N == 0 {
			err = errLong
		}
		switch {
		case errors.Is(err, io.EOF) && len(r.row) > 0:
			return nil, errors.New("its last line has no end")
		case errors.Is(err, io.EOF) && (deliveries != b.Deliveries || attempts != b.Attempts):
			return nil, fmt.Errorf("%d deliveries and %d attempts, where the manifest has %d and %d", deliveries, attempts, b.Deliveries, b.Attempts)
		case errors.Is(err, io.EOF):
			return rows, nil
		case errors.Is(err, errLong):
			return nil, fmt.Errorf("more than %d bytes, which whctl does not write", r.limit)
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", deliveries+1, err)
		case deliveries == b.Deliveries:
			return nil, fmt.Errorf("more than the %d deliveries that the manifest has", b.Deliveries)
		}
		a, err := decodeRow(r.row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", deliveries+1, err)
		}
		deliveries++
		attempts += len(a.History)
		if keep {
			rows = append(rows, a)
		}
	}
}
