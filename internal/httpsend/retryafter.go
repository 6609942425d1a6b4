package httpsend

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter stands for everything longer. A policy's bound is far below it, and
// adding it to a time does not overflow.
const maxRetryAfter = 100 * 365 * 24 * time.Hour

// retryAfter is what the receiver asked for (RFC 9110, section 10.2.3): whole seconds,
// or a date. 0 stands for no wish, and for one that makes no sense: zero, negative, not
// whole, past, no date. A date is held against the answer's own Date, so that it does
// not matter whose clock is wrong; now serves where there is none.
func retryAfter(h http.Header, now func() time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = now()
	}
	wait := until.Sub(from) // saturates
	if wait <= 0 {
		return 0
	}
	// Both dates have lost up to a second: never come back too early.
	return min(wait, maxRetryAfter-time.Second) + time.Second
}
