package archive

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"example.com/whctl/internal/work"
)

// manifestSuffix is what the name of a manifest has more than that of its file.
const manifestSuffix = ".manifest.jsonl"

// maxEntry bounds a line of a manifest, in bytes; escapes make a batch key longer.
const maxEntry = 6*maxBatchKey + 512

// entry is a line of the manifest.
type entry struct {
	BatchKey   string `json:"batch_key"`
	Offset     int64  `json:"offset"`
	Bytes      int64  `json:"bytes"`
	SHA256     string `json:"sha256"`
	Deliveries int    `json:"deliveries"`
	Attempts   int    `json:"attempts"`
}

func entryOf(batchKey string, m work.ArchiveMark) entry {
	return entry{
		BatchKey: batchKey, Offset: m.Offset, Bytes: m.Bytes, SHA256: hex.EncodeToString(m.SHA256),
		Deliveries: m.Deliveries, Attempts: m.Attempts,
	}
}

func (e entry) line() ([]byte, error) {
	line, err := json.Marshal(e)
	return append(line, '\n'), err
}

// parseEntry reads one line. What it returns is possible by itself, in whatever file.
func parseEntry(line []byte, file string) (Batch, error) {
	if len(line) == 0 {
		return Batch{}, errors.New("the line is empty")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var e entry
	if err := dec.Decode(&e); err != nil {
		return Batch{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Batch{}, errors.New("more than one value on the line")
	}
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != 32 {
		return Batch{}, errors.New("sha256 is none")
	}
	switch {
	case e.BatchKey == "" || len(e.BatchKey) > maxBatchKey:
		return Batch{}, fmt.Errorf("batch_key has %d bytes", len(e.BatchKey))
	case e.Offset < 0 || e.Bytes < 1 || e.Offset > math.MaxInt64-e.Bytes:
		return Batch{}, fmt.Errorf("%d bytes at %d", e.Bytes, e.Offset)
	case e.Deliveries < 1 || e.Attempts < 0:
		return Batch{}, fmt.Errorf("%d deliveries with %d attempts", e.Deliveries, e.Attempts)
	}
	return Batch{Key: e.BatchKey, ArchiveMark: work.ArchiveMark{
		File: file, Offset: e.Offset, Bytes: e.Bytes, SHA256: sum, Deliveries: e.Deliveries, Attempts: e.Attempts,
	}}, nil
}

// errLong is a line that is longer than its bound.
var errLong = errors.New("the line is too long")

// readLine reads a line, without its end, into buf. At the end of the input it returns
// io.EOF, with what stands there without a line's end. A line of more than limit bytes
// is errLong and is not read to its end.
func readLine(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	for buf = buf[:0]; ; {
		piece, err := r.ReadSlice('\n')
		if len(buf)+len(piece) > limit {
			return buf, errLong
		}
		buf = append(buf, piece...)
		if err == nil {
			return buf[:len(buf)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, err
		}
	}
}
