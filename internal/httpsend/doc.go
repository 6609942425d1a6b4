// Package httpsend makes one signed POST and says what came of it.
//
// Invariants:
//   - One call of Send is at most one POST on the network: from its first byte on there is
//     no other try (roundTrip).
//   - An answer belongs to the request that it followed: bytes that come while no
//     request is open end their connection (quiet).
//   - A status line is the answer, whatever becomes of the body behind it.
//   - No address is dialled that the egress guard has not judged, and it judges where
//     the connection is made (guard, control). Of a name with several addresses those that
//     are refused are passed over. testdata/verdicts.txt is what the guard says to every
//     kind of address and spelling.
//   - No proxy comes from the environment, no redirect is followed, no certificate goes
//     unchecked.
//   - Nothing is waited for beyond the request's time limit, and no more than a bound is
//     read (evidence).
//   - What leaves the package as text is clean: one line of valid UTF-8 without control
//     characters, without the URL's path and query, header values, keys, what the
//     request said in its body or what the rules of redact name (clean, scrubber).
//
// The connections are the package's own, and net/http reads the answers. Its Transport would
// send a POST again by itself, pair a stray answer with the next request and drop an answer
// that comes before the request was read (each had to be kept from it); and its goroutines,
// two for each connection, cost as much as all the rest of an attempt.
//
// Not here: what an outcome leads to (policy), where secrets come from (config),
// what the body is made of (work). HTTP/1.1 only: a connection then carries one
// request at a time, which the first two invariants rest on, and nothing is sent
// again after a GOAWAY or a refused stream.
package httpsend
