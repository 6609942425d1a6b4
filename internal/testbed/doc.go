// Package testbed is the bench that tests stand on: a Postgres of their own, a
// receiver, a link that can be held or cut, a pooler, and the built program.
//
// Invariants: nothing here sleeps; whoever waits is woken by what it waits for, or
// fails the test with what was seen until then. Whatever a test starts here ends with
// it. Each database is a fresh copy of a migrated template, so tests may run in
// parallel.
//
// A test binary that uses databases or the program calls Main from its TestMain.
//
// Not here: what is right (the tests), the invariants of the tables (checker). Only
// tests import this package.
package testbed
