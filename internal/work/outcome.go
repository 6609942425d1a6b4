package work

import (
	"fmt"
	"time"
)

// Class is what an attempt ended as.
type Class string

// The outcome classes.
const (
	OK           Class = "ok"           // 2xx
	Timeout      Class = "timeout"      // no status line within the request's time limit
	DNS          Class = "dns"          // the host name could not be resolved
	Connect      Class = "connect"      // no connection: refused, unreachable
	TLS          Class = "tls"          // the handshake failed; no request was sent
	Reset        Class = "reset"        // the connection broke before a status line came
	Protocol     Class = "protocol"     // the answer is no HTTP, or its status is none that HTTP knows
	Blocked      Class = "blocked"      // the egress guard refuses the written address
	BlockedName  Class = "blocked_name" // the host name resolves to a refused address
	Invalid      Class = "invalid"      // URL, header or key cannot be used
	Redirect     Class = "redirect"     // 3xx; redirects are not followed
	Unauthorized Class = "unauthorized" // 401, 403
	RateLimited  Class = "rate_limited" // 429
	Rejected     Class = "rejected"     // any other 4xx
	Unavailable  Class = "unavailable"  // 408, 425, 5xx
	Lost         Class = "lost"         // the worker died after its claim, or a stop broke the send off: the effect is unknown
)

// classes is ordered: the place of a class is its number in the tables, 1 for OK.
// 0 stands for none.
var classes = [...]Class{
	"", OK, Timeout, DNS, Connect, TLS, Reset, Protocol, Blocked, BlockedName, Invalid,
	Redirect, Unauthorized, RateLimited, Rejected, Unavailable, Lost,
}

// Classes lists every outcome class, OK first.
func Classes() []Class { return append([]Class(nil), classes[1:]...) }

// Code is the number under which the tables keep c.
func (c Class) Code() int16 {
	for i, x := range classes {
		if x == c {
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
	return classes[code]
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
