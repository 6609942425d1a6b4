package archive

import (
	"fmt"

	"example.com/whctl/internal/work"
)

// Batch is one batch by its line in the manifest.
type Batch struct {
	Key string // as in the ledger; a batch that was rolled back may have been written again under the same
	work.ArchiveMark
	Problem string // what is wrong with it; "": nothing. It may quote the file: text from outside
}

// Report is what was found in an archive.
type Report struct {
	File       string // as it was asked for
	Bytes      int64
	Batches    []Batch
	Deliveries int64    // in the batches that are in order, also in those that stand there twice
	Attempts   int64    // of those
	Problems   []string // what is wrong besides with the file and its manifest
	Explained  []string // what a run leaves that stopped or rolled back; nothing is wrong with it
}

// OK says that every batch that the manifest names is whole, and that all else is explained.
func (r *Report) OK() bool { return r.faults() == 0 }

func (r *Report) faults() int {
	n := len(r.Problems)
	for i := range r.Batches {
		if r.Batches[i].Problem != "" {
			n++
		}
	}
	return n
}

// Err is nil if the report is OK, else its first problem.
func (r *Report) Err() error {
	n, first := r.faults(), ""
	if n == 0 {
		return nil
	}
	if len(r.Problems) > 0 {
		first = r.Problems[0]
	}
	for i := range r.Batches {
		if b := &r.Batches[i]; b.Problem != "" {
			first = fmt.Sprintf("batch %q at %d: %s", b.Key, b.Offset, b.Problem)
			break
		}
	}
	return fmt.Errorf("archive %s is damaged: %s (problems in all: %d)", r.File, first, n)
}
