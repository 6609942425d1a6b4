// Package sweep removes what is finished and old, in bounded batches.
//
// A sweep is one retention pass of a policy: its cutoff is fixed when it begins, from the
// database's clock, and written down. Any number of runs may work at one sweep, one batch
// at a time, each batch where the last one ended; what a stopped run leaves, the next one
// carries on.
//
// Invariants: a batch and its row in the ledger are stored together or not at all; only
// finished deliveries in the policy's states go, the oldest first; a policy that keeps for
// less time than the one that was last swept by was looked at before; a run ends within
// its bounds and says which one ended it.
//
// Not here: what the rows look like (pgstore), how an archive is written (archive), what
// a policy may be (config).
package sweep
