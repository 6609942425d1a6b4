// Package bench holds the benchmarks of whole journeys: the real binary, a private
// Postgres with durable settings, a receiver on loopback. `make bench` runs them.
//
// A figure means something only beside the others of its run: quote ratios, never a
// rate by itself.
package bench
