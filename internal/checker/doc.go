// Package checker looks for broken invariants in the work table and in what a
// receiver saw.
//
// It is a second opinion: it shares no code with the product and knows the schema
// only by its documentation, so that a mistake in the product is not repeated
// here. Each rule is one statement that answers with the rows which break it; all
// rules of one check look at the same snapshot, and nothing is written.
//
// A rule says nothing about work that is under way in a lawful manner: a lease that
// has run out, a result that came late, a POST whose answer nobody waited for.
//
// Not here: how the rows came to be (the product), how a receiver keeps its log
// (testbed).
package checker
