package deliver

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestASampleIsExactWhileItIsSmall(t *testing.T) {
	never := func() float64 { t.Error("a small sample drew lots"); return 0 }
	var s sample
	if p := s.percentiles(); p != (Percentiles{}) {
		t.Errorf("of nothing: %+v", p)
	}
	for i := range maxSample {
		s.add(time.Duration((i*7919)%maxSample+1), never) // all of 1 to maxSample, in no order
	}
	p := s.percentiles()
	if *p.P50 != maxSample/2 || *p.P90 != maxSample*9/10 || *p.P99 != maxSample*99/100 || *p.Max != maxSample {
		t.Errorf("p50 %d, p90 %d, p99 %d, max %d", *p.P50, *p.P90, *p.P99, *p.Max)
	}
}

// A worker that runs for months keeps no more, and tells of its whole life, not only of
// its first hour or its last.
func TestASampleIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s sample
	const n = 20 * maxSample
	for i := range n {
		d := time.Duration(i)
		if i == n/2 {
			d = 10 * n // one outlier, which may well not be kept
		}
		s.add(d, random.Float64)
	}
	if len(s.kept) != maxSample || cap(s.kept) > 2*maxSample {
		t.Fatalf("%d are kept, room for %d", len(s.kept), cap(s.kept))
	}
	p := s.percentiles()
	for q, got := range map[float64]time.Duration{0.5: *p.P50, 0.9: *p.P90, 0.99: *p.P99} {
		if want := q * n; float64(got) < want-0.01*n || float64(got) > want+0.01*n {
			t.Errorf("percentile %v is %d, want about %.0f", q, got, want)
		}
	}
	if *p.Max != 10*n {
		t.Errorf("max %d", *p.Max)
	}
}
