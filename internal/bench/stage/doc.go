// Package stage sets up what the measures run on: one private Postgres with durable
// settings, databases with a known number of rows, the receiver's process, and the real
// whctl.
package stage
