// Package pgstore keeps deliveries in PostgreSQL.
//
// Invariants: every write stands in an explicit transaction, since the driver
// repeats an autocommit statement whose answer was lost; every write after a claim
// is fenced by row id, attempt id, lease owner and state, so that a repeat changes
// nothing; no session state is relied on, so that a transaction pooler may stand
// between (statements are prepared only where a transaction is served by the process
// that greeted the connection); the database's clock is the only one.
//
// SQL is a named constant beside its only caller. It names the schema whctl, which
// sql() rewrites where another one is configured.
//
// Not here: what to retry (policy), what to send (httpsend), in which order to do
// things (the use cases).
package pgstore
