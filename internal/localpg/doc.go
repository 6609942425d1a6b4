// Package localpg runs a private, throw-away Postgres for the demo, the tests and
// the benchmarks.
//
// Invariants: the server runs as an unprivileged account also when its starter is
// root; all it writes is in one folder of its own, removed by Stop; it ends when the
// process that started it ends, however that happens; other users of the machine
// cannot log in as its superuser. Two servers at once do not meet.
//
// Not here: databases, schemas and templates for tests (testbed), installing
// Postgres (make postgres).
package localpg
