package work

import (
	"fmt"
	"time"
)

// Class is what an attempt ended as.
type Class string

// The outcome classes. What each means stands in their table, below.
const (
	OK           Class = "ok"
	Timeout      Class = "timeout"
	DNS          Class = "dns"
	Connect      Class = "connect"
	TLS          Class = "tls"
	Reset        Class = "reset"
	Protocol     Class = "protocol"
	Blocked      Class = "blocked"
	BlockedName  Class = "blocked_name"
	Invalid      Class = "invalid"
	Redirect     Class = "redirect"
	Unauthorized Class = "unauthorized"
	RateLimited  Class = "rate_limited"
	Rejected     Class = "rejected"
	Unavailable  Class = "unavailable"
	Lost         Class = "lost"
)

// ClassMeaning is a class in words.
type ClassMeaning struct {
	Class   Class
	Meaning string // what an attempt ended as
	Then    string // what becomes of the delivery, where no policy says otherwise and tries are left
}

// classes is the one table of outcome classes. It is ordered: the place of a class is its
// number in the database's tables, 1 for OK. 0 stands for none.
var classes = [...]ClassMeaning{
	{},
	{OK, "2xx", "delivered, whatever the body does"},
	{Timeout, "no status line within the time limit", "retry"},
	{DNS, "the host name could not be resolved", "retry"},
	{Connect, "no connection: refused, unreachable", "retry"},
	{TLS, "TLS failed: certificate expired, for another host, by an unknown authority, or a fault in the protocol", "retry"},
	{Reset, "the connection broke before a status line came", "retry"},
	{Protocol, "an answer that is no HTTP, or a status that HTTP does not know (099, 999)", "retry"},
	{Blocked, "an inside address, written out, or http where https is required", "dead; the message names the setting that would admit it"},
	{BlockedName, "a name (but `localhost`) that resolves to an inside address", "retry, never dialled"},
	{Invalid, "a URL, header value, key or payload that cannot be sent", "dead"},
	{Redirect, "3xx", "dead: redirects are not followed"},
	{Unauthorized, "401, 403", "dead"},
	{RateLimited, "429", "retry; `Retry-After` is heeded, within `retry_after_max`"},
	{Rejected, "any other 4xx", "dead"},
	{Unavailable, "408, 425, 5xx", "retry; `Retry-After` is heeded, within `retry_after_max`"},
	{Lost, "the worker died, or a stop broke the send off: the effect is unknown", "retry when the lease has run out; it counts as an attempt"},
}

// Classes lists every outcome class, OK first.
func Classes() []Class {
	all := make([]Class, 0, len(classes)-1)
	for _, c := range classes[1:] {
		all = append(all, c.Class)
	}
	return all
}

// ClassMeanings lists every outcome class with what it means, OK first.
func ClassMeanings() []ClassMeaning { return append([]ClassMeaning(nil), classes[1:]...) }

// Known says that c is one of them.
func (c Class) Known() bool {
	for _, x := range classes[1:] {
		if x.Class == c {
			return true
		}
	}
	return false
}

// Code is the number under which the tables keep c.
func (c Class) Code() int16 {
	for i, x := range classes {
		if x.Class == c {
			return int16(i)
		}
	}
	panic(fmt.Sprintf("work: unknown class %q", string(c)))
}

// ClassOf is the class kept under code; an unknown code has none.
func ClassOf(code int16) Class {
	if code < 0 || int(code) >= len(classes) {
		return ""
	}
	return classes[code].Class
}

// ClassOfStatus is the class of an HTTP answer by its status code (RFC 9110,
// section 15). Codes outside 200 to 599 are no final answers: Protocol.
func ClassOfStatus(status int) Class {
	switch {
	case status >= 200 && status <= 299:
		return OK
	case status >= 300 && status <= 399:
		return Redirect
	case status == 401 || status == 403:
		return Unauthorized
	case status == 408 || status == 425:
		return Unavailable
	case status == 429:
		return RateLimited
	case status >= 400 && status <= 499:
		return Rejected
	case status >= 500 && status <= 599:
		return Unavailable
	}
	return Protocol
}

// Outcome is what one attempt ended as, before anything is decided about it.
type Outcome struct {
	Class      Class
	Status     int           // HTTP status code, 0 when no status line was received
	RetryAfter time.Duration // what the receiver asked for; 0 when it asked for nothing usable. Not yet bounded
	Message    string        // the finer cause, one line, clean of secrets and control characters
	Excerpt    string        // the beginning of the answer's body, cleaned; at most 2 KiB
	Unsent     bool          // with Lost: a stop came before anything of the request was sent
	Latency    time.Duration // from the start of the request to the answer's status line, or to the failure
}
