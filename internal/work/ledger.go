package work

import "time"

// LedgerRow is one batch of a sweep, as it is on record.
type LedgerRow struct {
	Key        string
	Policy     string
	Version    int
	Cutoff     time.Time
	Seq        int
	Target     Target
	Deliveries int64
	Attempts   int64
	Skipped    int64
	Worker     string
	StartedAt  time.Time
	FinishedAt time.Time
	Archive    ArchiveMark // File is "" where it was not archived
}

// LedgerFault is a difference between the ledger and the tables.
type LedgerFault struct {
	Kind    string // gap, sum, stray, left or orphan
	Key     string // of the batch or sweep
	Message string
}
