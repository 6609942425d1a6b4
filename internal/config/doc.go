// Package config reads the configuration: defaults, a YAML file, the environment and
// flags, the later winning, key by key.
//
// Invariants: every value is known to the schema in schema.go, and comes with where it
// was set; everything that is wrong is reported at once, one line each, with file and
// line; no report and no setting shown holds a secret. Every error wraps
// work.ErrConfig.
//
// Values stay texts until all layers are merged, so that a number, a word or a version
// such as 010 is what was written and not what YAML makes of it.
//
// Not here: what the values mean for a delivery (policy), whether an address may be
// reached (httpsend), opening the database (pgstore).
package config
