// Package demo is a throw-away playground: a private Postgres, a receiver that fails in
// known ways, and twelve enrolments that whctl delivers to it all the same.
//
// Invariants: whatever a user would do is done by the real program, as a child process,
// and shown as it was typed and answered; the receiver decides by enrolment and attempt,
// never by the time; the closing accounts are counted from both sides, the receiver's
// tables and whctl's views. Nothing stays behind: no process, no file.
//
// Not here: how deliveries are made (the commands themselves), how the Postgres is run
// (localpg).
package demo
