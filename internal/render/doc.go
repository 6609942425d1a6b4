// Package render turns results into what goes to stdout: tables for people, JSON,
// JSON lines, CSV, Markdown and names for programs.
//
// Invariants: text from outside never reaches a terminal as it came. Every cell,
// name and detail has its control characters, escapes, bidirectional overrides and
// invisible characters replaced by marks (Visible). JSON keeps every string; what
// could drive a terminal stands there as a \u escape, which reads back the same. A
// row is drawn once, in the order given. Every write error comes back to the
// caller, a broken pipe too.
//
// Not here: where rows come from, logs and prompts (console), screens (tui).
package render
