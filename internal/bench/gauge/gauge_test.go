package gauge

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseProcess(t *testing.T) {
	// A name may hold what separates the fields.
	got := parseProcess([]byte("42 (a b) S (c) S 7 1 2 3 4 5 6 7 8 9 150 25 100 5 20 0 1 0"))
	want := process{pid: 42, parent: 7, own: 1750 * time.Millisecond, reaped: 1050 * time.Millisecond}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, text := range []string{"", "42", "42 (a", "42 (a) S 7"} {
		if got := parseProcess([]byte(text)); got != (process{}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestParseBusyLeavesOutIdling(t *testing.T) {
	got := parseBusy([]byte("cpu  1 2 3 1000 1000 4 5 6 7 8\ncpu0 9 9 9 9 9\n"))
	if want := 210 * time.Millisecond; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOwnMemoryIsSeen(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		if PeakRSS(os.Getpid()) != 0 {
			t.Error("a size without /proc")
		}
		return
	}
	if got := PeakRSS(os.Getpid()); got < 1<<20 {
		t.Errorf("this test takes %d bytes, want more than a megabyte", got)
	}
}

func TestMedianAndPercentile(t *testing.T) {
	for want, xs := range map[float64][]float64{0: nil, 3: {9, 1, 3}, 2.5: {4, 1, 2, 3}} {
		if got := Median(xs); got != want {
			t.Errorf("median of %v: %v, want %v", xs, got, want)
		}
	}
	xs := []int{5, 3, 1, 4, 2}
	for q, want := range map[float64]int{0: 1, 0.2: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Percentile(xs, q); got != want {
			t.Errorf("percentile %v: %v, want %v", q, got, want)
		}
	}
	if got := Percentile([]int(nil), 0.5); got != 0 {
		t.Errorf("percentile of nothing: %v", got)
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 12345.6: "12346", 123.45: "123", 1.2345: "1.23", 0.5: "0.5", 0.01234: "0.0123", 0.000012: "0", -2.5: "-2.5"} {
		if got := short(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var table Table
	table.Add(Row{What: "rate", Bar: AtLeast(1.5, 2), Values: []float64{1, 2, 1.5}, Other: []float64{0, 0.1, 0.5}})
	table.Add(Row{What: "time", Unit: "ms", Bar: AtMost(5, 0), Values: []float64{6}, Other: []float64{0}})
	table.Add(Row{What: "told", Values: []float64{7}, Other: []float64{0}})
	cost := Cost{Wall: 2 * time.Second, Program: time.Second, Peak: 3e6}
	table.AddRun("one", Run{Cost: cost, Units: 1000, WAL: 5000})
	table.AddRun("other", Run{Cost: cost, Units: 10, WAL: 5000})
	table.AddRun("one", Run{Cost: cost, Units: 1000, WAL: 7000})
	var out strings.Builder
	if err := table.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `| measure | bar           | value | verdict | spread | rounds | cores_other |
| ------- | ------------- | ----- | ------- | ------ | ------ | ----------- |
| rate    | ≥ 1.5 (aim 2) | 1.5   | ok      | 1 – 2  | 3      | 0.1         |
| time    | ≤ 5           | 6 ms  | miss    | 6 – 6  | 1      | 0           |
| told    | –             | 7     |         | 7 – 7  | 1      | 0           |

| run   | per s | program µs | Postgres µs | receiver µs | WAL B | peak RSS MB | cores_other | runs |
| ----- | ----- | ---------- | ----------- | ----------- | ----- | ----------- | ----------- | ---- |
| one   | 500   | 1000       | 0           | 0           | 6     | 3           | 0           | 2    |
| other | 5     | 100000     | 0           | 0           | 500   | 3           | 0           | 1    |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestBarsAreMet(t *testing.T) {
	for name, c := range map[string]struct {
		bar   *Bar
		value float64
		want  bool
	}{
		"at least, reached": {AtLeast(2, 3), 2, true},
		"at least, missed":  {AtLeast(2, 3), 1.99, false},
		"at most, kept":     {AtMost(2, 1), 2, true},
		"at most, missed":   {AtMost(2, 1), 2.01, false},
		"no number":         {AtLeast(2, 3), math.NaN(), false},
	} {
		if got := c.bar.met(c.value); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
