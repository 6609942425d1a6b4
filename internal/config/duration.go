package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/common/model"
)

// ParseDuration reads 90d, 2w, 36h, 1d12h, 5m, 10s, 100ms. A day is 24 hours, whatever
// the zone. 0 needs no unit; nothing is negative.
func ParseDuration(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration (write a number and a unit, larger units first, such as 10s, 5m, 36h, 1d12h or 90d)", s)
	}
	return time.Duration(d), nil
}

// minutes finds an m that stands for minutes.
var minutes = regexp.MustCompile(`(\d+)m($|\d)`)

// ParseAge reads a duration that says how old something is. Minutes are refused unless
// hours or seconds beside them make them plain: 6m means minutes, is meant as months,
// and what is older than six minutes is nearly everything.
func ParseAge(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err != nil {
		return 0, err
	}
	m := minutes.FindStringSubmatch(s)
	if m == nil || strings.ContainsAny(s, "hs") {
		return d, nil
	}
	n, _ := strconv.Atoi(m[1]) // ParseDuration took it
	return 0, fmt.Errorf("%q is refused for an age: m means minutes and is easily taken for months (write %dd for months, %ds for minutes)", s, n*30, n*60)
}

// FormatDuration is d as ParseDuration reads it, in days and smaller units.
func FormatDuration(d time.Duration) string {
	if d <= 0 || d%time.Millisecond != 0 {
		return d.String() // finer than ParseDuration knows
	}
	var b strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d %= unit.size
		}
	}
	return b.String()
}

var size = regexp.MustCompile(`^\d+ ?([kKMG]i?)?B?$`)

// ParseSize reads bytes: 262144, 256KiB, 16MiB, 1MB. Ki and Mi count by 1024, k and M
// by 1000.
func ParseSize(s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || !size.MatchString(s) || n > 1<<53 {
		return 0, fmt.Errorf("%q is no size (write bytes, such as 262144, 256KiB, 16MiB or 1MB)", s)
	}
	return int64(n), nil
}

// FormatSize is n bytes as ParseSize reads them.
func FormatSize(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d%s", n/unit.size, unit.name)
		}
	}
	return strconv.FormatInt(n, 10)
}
