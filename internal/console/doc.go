// Package console is the talk beside the results: the three streams, whether they
// are terminals, colour, logs, progress and confirmations.
//
// Invariants: one event is one line, whatever a receiver wrote into it; text from
// outside never drives the terminal; without a terminal there is no colour, no
// progress and no prompt; a log line never lands in the middle of a progress bar.
//
// Not here: results (render), screens (tui), what is worth saying (the callers).
package console
