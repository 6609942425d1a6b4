// Package peer holds what whctl is measured with and against, each in a process of its
// own: the receiver, the bare client that shows what HTTP can do at most, and River.
//
// All of them send the same request: whctl's headers, its signature and a body of the
// same size, made as cheaply as can be.
package peer
