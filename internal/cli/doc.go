// Package cli is the command line: the tree of commands, the wiring of each, and
// the exit codes.
//
// A command is a constructor, its options and a run function. It validates before it
// connects, builds the use case from adapters and prints what comes back. No command
// opens the database, reads the configuration or logs before its run function has
// begun, since completion runs the same tree.
//
// Not here: decisions (policy), SQL (pgstore), HTTP (httpsend), how a table looks
// (render).
package cli
