package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxRate is the highest number that a rate may have.
const MaxRate = 1_000_000

// unlimited is the word for the zero Rate: a policy needs it to take off a rate that
// it would inherit.
const unlimited = "unlimited"

// ParseRate reads a rate such as 50/s, 600/m or 10/h, or the word unlimited.
func ParseRate(s string) (Rate, error) {
	if s == unlimited {
		return Rate{}, nil
	}
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || per == 0 || n < 1 || n > MaxRate {
		return Rate{}, fmt.Errorf("%q is no rate (write 1 to %d, a slash and s, m or h, such as 50/s; or %s)", s, MaxRate, unlimited)
	}
	return Rate{N: int(n), Per: per}, nil
}

// String is the rate as ParseRate reads it.
func (r Rate) String() string {
	switch {
	case r == Rate{}:
		return unlimited
	case r.Per == time.Second:
		return fmt.Sprintf("%d/s", r.N)
	case r.Per == time.Minute:
		return fmt.Sprintf("%d/m", r.N)
	case r.Per == time.Hour:
		return fmt.Sprintf("%d/h", r.N)
	}
	return fmt.Sprintf("%d/%s", r.N, r.Per) // no rate that ParseRate makes
}
