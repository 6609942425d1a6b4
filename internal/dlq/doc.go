// Package dlq is how people find out what died, and why.
//
// Invariants: filters are values, compared whole, never patterns; a page goes on
// exactly behind the one before it, whatever happened to its rows meanwhile; no count
// delays what it announces.
//
// Not here: SQL (pgstore), how a list looks (render, cli).
package dlq
