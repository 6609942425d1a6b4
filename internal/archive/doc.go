// Package archive keeps what a sweep removes in files, one delivery a line.
//
// An archive is FILE.ndjson.zst with FILE.ndjson.zst.manifest.jsonl beside it. Each batch
// is one Zstandard frame of its own (RFC 8878), so that `zstd -dc FILE` reads the whole
// file, and one line of the manifest, with where it stands, its checksum and its counts.
//
// Invariants: when Append returns, the batch and its manifest line are on the disk, the
// batch before the line; so whatever moment the machine stops at, every batch that a
// committed sweep removed is whole, and what else is there stands behind the last line.
// What was read back is, byte for byte, what was handed in. What cannot be read back is
// refused before it is written. Reading holds one line of the file in memory (Verify) or
// one batch (Read), neither larger than a bound, whatever the file says.
//
// Not here: what is archived, which batches were committed (the ledger, in pgstore), how
// a report looks.
package archive
