// Package deliver attempts what is due, at least once.
//
// The claim is the start: a run claims exactly as many deliveries as it has free
// places, each is sent at once, and its place is free again when its result has been
// recorded. So no delivery waits under a lease, and the leases of a run never
// outnumber its places.
//
// Invariants: no transaction is open while a request is in flight; every attempt
// that may have reached the network is recorded; what was claimed and not sent is
// given back; a lost lease changes nothing; no destination takes the places of
// another that has work.
//
// Not here: when to retry (policy), how to sign and send (httpsend), SQL (pgstore).
package deliver
