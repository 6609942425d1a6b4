// Package httpsend makes one signed POST and says what came of it.
//
// Invariants:
//   - One call of Send is at most one POST on the network: once a byte of it was
//     written, there is no other try (roundTrip). The caller's goroutine does all of it,
//     but for the write of a long body; none is left behind.
//   - An answer belongs to the request that it followed: a connection on which anything
//     has come since the last answer carries no other (quiet).
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
// Not here: what an outcome leads to (policy), where secrets come from (config),
// what the body is made of (work). HTTP/1.1 only: a connection then carries one
// request at a time, which the first two invariants rest on, and nothing is sent
// again after a GOAWAY or a refused stream. net/http reads the answers; its Transport is
// not used, for it sends a POST with an Idempotency-Key again by itself.
package httpsend
