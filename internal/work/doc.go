// Package work holds the nouns of whctl: deliveries, attempts, outcomes, the
// states a delivery can be in and the names they are shown under.
//
// Everything here is plain data with pure functions on it. The words are those
// of the SQL schema, the JSON output, the flags and the documentation.
//
// Not here: when to retry (policy), I/O of any kind, clocks, loggers. This
// package imports nothing else of the module.
package work
