package deliver

import (
	"math"
	"slices"
	"time"
)

// maxSample is how many latencies are kept: 800 kB, however long a worker lives.
const maxSample = 100_000

// sample is the latencies of a run: all of them up to maxSample, from then on so many of
// them, each with the same chance (reservoir sampling, algorithm R).
type sample struct {
	kept []time.Duration
	seen int
	max  time.Duration // of all
}

// add takes one in. random answers in [0,1).
func (s *sample) add(d time.Duration, random func() float64) {
	s.seen++
	s.max = max(s.max, d)
	if len(s.kept) < maxSample {
		s.kept = append(s.kept, d)
		return
	}
	if i := int(random() * float64(s.seen)); i < maxSample {
		s.kept[i] = d
	}
}

// percentiles are those of what was kept; the largest is that of all.
func (s *sample) percentiles() Percentiles {
	if s.seen == 0 {
		return Percentiles{}
	}
	slices.Sort(s.kept)
	return Percentiles{s.at(0.5), s.at(0.9), s.at(0.99), &s.max}
}

// at is the smallest latency that at least the fraction q does not exceed.
func (s *sample) at(q float64) *time.Duration {
	return &s.kept[max(0, int(math.Ceil(q*float64(len(s.kept))))-1)]
}
