package gauge

import (
	"cmp"
	"math"
	"slices"
)

// Median is the middle of xs, 0 for none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Percentile is the smallest of xs that at least the fraction q of them does not exceed;
// zero for none.
func Percentile[T cmp.Ordered](xs []T, q float64) (x T) {
	if len(xs) == 0 {
		return x
	}
	s := slices.Sorted(slices.Values(xs))
	return s[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}
