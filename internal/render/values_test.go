package render_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"example.com/whctl/internal/render"
)

func TestTime(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 4, 5, 120_000_999, time.FixedZone("CET", 3600))
	if got, want := render.Time(at), "2026-03-01T01:04:05.120000Z"; got != want {
		t.Errorf("Time = %q, want %q", got, want)
	}
	if got := render.Time(time.Time{}); got != "" {
		t.Errorf("Time of nothing = %q, want none", got)
	}
}

func TestInstantJSON(t *testing.T) {
	got, err := json.Marshal(struct {
		At    render.Instant  `json:"at"`
		Never render.Instant  `json:"never"`
		Left  render.Instant  `json:"left,omitzero"`
		Ptr   *render.Instant `json:"ptr"`
	}{At: render.Instant(time.Date(2026, 3, 1, 1, 4, 5, 0, time.UTC))})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"at":"2026-03-01T01:04:05.000000Z","never":null,"ptr":null}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var back struct{ At time.Time }
	if err := json.Unmarshal(got, &back); err != nil || !back.At.Equal(time.Date(2026, 3, 1, 1, 4, 5, 0, time.UTC)) {
		t.Errorf("read back as %v, %v", back.At, err)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]float64{0: 0, 1500 * time.Millisecond: 1.5, 1_234_567_891: 1.234568, -time.Second: -1, time.Microsecond: 0.000001} {
		if got := render.Seconds(d); got != want {
			t.Errorf("Seconds(%d) = %v, want %v", d, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", time.Minute: "1m", 4*time.Minute + 59*time.Second: "4m",
		time.Hour: "1h", 47*time.Hour + 59*time.Minute: "47h", 2 * day: "2d", 2*day + 23*time.Hour: "2d", 1500 * day: "1,500d",
		-4 * time.Minute: "in 4m", math.MinInt64: "in 0s",
	} {
		if got := render.Age(d); got != want {
			t.Errorf("Age(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1284: "1,284", -1284: "-1,284", math.MaxInt64: "9,223,372,036,854,775,807"} {
		if got := render.Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{-1: "0 B", 0: "0 B", 312: "312 B", 1536: "1.5 KiB", 256 << 10: "256 KiB"} {
		if got := render.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
