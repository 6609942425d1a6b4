// Package policy decides what becomes of a delivery after an attempt.
//
// Everything is pure: the outcome, the number of the attempt, the policy and the
// random number go in, a decision and its reason come out. The same input gives the
// same decision.
//
// Not here: sending (httpsend), recording (pgstore), reading the configuration
// (config). No clock, no I/O, no logger, no global random source.
package policy
