// Package redact takes out of JSON text the values that rules name, so that a person may
// see the rest. A rule is a JSONPath (RFC 9535) such as $.student.* or $..email.
//
// Invariants: the whole of a value that a rule selects is replaced, also each of several
// with the same name in one object, also where the text breaks off in it. Every other
// byte of JSON stays: order, spacing, numbers, escapes. Where it can't be known whether
// a rule selects a value, as its place counted from an end that isn't there, it is
// replaced; what isn't JSON, but might be something like it, is not kept. Time and memory
// grow with the text's length, times the rules'.
//
// Names are compared as they are read, escapes undone, capitals kept apart. JSON that is
// a text in JSON is a text.
//
// Not here: secrets and what a receiver quotes (httpsend), what a terminal could be
// misled by (render), other formats: nothing is found in XML, forms and prose.
package redact
