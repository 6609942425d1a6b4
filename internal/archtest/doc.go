// Package archtest holds the import law of the house and tests the house against it.
//
// Invariants: nobody imports upward; a use case imports neither another use case nor
// an adapter; the nouns import nothing of ours; each third-party library that shapes
// its caller stays behind one door; SQL and clocks stay in the rooms named here. A
// package that has no room in the plan breaks the law: give it one, or another name.
//
// The law is a pure function over a list of packages and their sources, so that its
// own test can show it red. Not here: style (the linters).
package archtest
