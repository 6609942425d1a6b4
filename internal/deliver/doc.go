// Package deliver attempts what is due, at least once.
//
// The claim is the start: a run claims exactly as many deliveries as it has free
// places, each is sent at once, and its place is free again when its result has been
// recorded; where there are many places, as soon as it is known, so that the next are
// claimed meanwhile. So no delivery waits under a lease to be sent, and the leases of a run
// outnumber its places by the results that are not written yet, at most as many again.
//
// Once is a bounded run, Serve a worker that stays; they take the same turns. What all
// workers share about a destination, its health and its requests in flight, is kept by
// the store: a run asks for its share of a cap, and tells the others that it is alive.
//
// Invariants: no transaction is open while a request is in flight; every attempt
// that may have reached the network is recorded; what was claimed and not sent is
// given back; a lost lease changes nothing; no destination takes the places of
// another that has work; the leases of a destination never outnumber its share.
//
// Not here: when to retry (policy), how to sign and send (httpsend), SQL (pgstore).
package deliver
