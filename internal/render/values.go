package render

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// timeLayout is RFC 3339 with the six digits that Postgres keeps; times are put
// into UTC first.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Time is t in RFC 3339, in UTC, with six fractional digits; "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// Instant is a time as JSON output shows it: the text of Time, null when zero.
type Instant time.Time

// IsZero lets the JSON option omitzero leave it out.
func (i Instant) IsZero() bool { return time.Time(i).IsZero() }

// String is the text of Time.
func (i Instant) String() string { return Time(time.Time(i)) }

// MarshalJSON implements json.Marshaler.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + i.String() + `"`), nil
}

// Seconds is d as JSON output shows durations: a number of seconds, to the
// microsecond.
func Seconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond).Microseconds()) / 1e6 }

// Age is d in one unit, rounded down: 40s, 4m, 3h, 2d. Hours go up to 47, for the
// difference between 25 and 47 hours matters at night. What lies ahead, a negative
// age, reads "in 4m".
func Age(d time.Duration) string {
	if d < 0 {
		return "in " + Age(max(-d, 0)) // max: the smallest Duration has no positive counterpart
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return Count(int64(d/(24*time.Hour))) + "d"
}

// Bytes is a size in binary units: 0 B, 312 B, 1.5 KiB, 256 KiB.
func Bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// Count is n with thousands separators: 1,284.
func Count(n int64) string { return humanize.Comma(n) }
