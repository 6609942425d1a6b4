package work

import "time"

// Archived is a finished delivery with all that a sweep removes of it.
type Archived struct {
	Envelope
	CreatedAt   time.Time
	FinishedAt  time.Time
	State       State
	Generation  int
	Attempts    int // in this generation
	Class       Class
	Status      int
	Reason      Reason
	Fingerprint string
	History     []Attempt // of every generation, the oldest first
}

// ArchiveMark says where a batch stands in an archive.
type ArchiveMark struct {
	File       string // base name
	Offset     int64
	Bytes      int64
	SHA256     []byte // of the compressed frame
	Deliveries int
	Attempts   int
}
