// Package migrations holds the schema of whctl as forward-only SQL steps.
//
// Every statement names the schema whctl; whoever applies the steps to another
// schema rewrites that name (pgstore does, for --schema). Each step begins with a
// lock time-out, so that a long reader is not stood behind for ever, and ends by
// telling whctl.schema_version its own number and the oldest binary that may
// still work on what it left behind.
//
// Not here: who may run a step and under which lock (pgstore).
package migrations

import "embed"

// FS holds the steps, named NNNNN_what.sql.
//
//go:embed *.sql
var FS embed.FS

// Roles creates the group roles and their grants; `migrate up --roles` runs it after
// the steps, each time anew.
//
//go:embed roles/roles.sql
var Roles string
