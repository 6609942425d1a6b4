// Package enqueue puts deliveries into the work table: one, or a stream of JSON lines
// of any length.
//
// A stream passes three rooms, each with little in it: lines are cut, lines become
// orders, orders are stored chunk by chunk. While the database works on one chunk the
// next one is read.
//
// Invariants: the payload that is stored is, byte for byte, what stood in the line; a
// line that cannot be taken is reported with its number and keeps no other one out; what
// is counted as enqueued has been committed; the same lines again add nothing. Reasons
// never quote a payload.
//
// Not here: SQL (pgstore), files and flags (cli), how a reason is made safe to print
// (render).
package enqueue
