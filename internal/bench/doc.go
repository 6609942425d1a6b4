// Command bench measures whctl: the real program, a private Postgres with durable
// settings, a receiver in a process of its own, and River beside it. `make bench` runs
// it; BENCHMARKS.md says how to read what it prints.
//
// A figure means something only beside the others of its run: quote ratios, never a
// rate by itself. It ends with 0 whatever the figures are; another status means that
// something could not be measured.
//
// It is a module of its own, so that what is compared with chooses no version of the
// product's libraries.
package main
