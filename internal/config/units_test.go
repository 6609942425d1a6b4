package config_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/whctl/internal/config"
)

const day = 24 * time.Hour

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "2w": 14 * day, "36h": 36 * time.Hour, "1d12h": 36 * time.Hour, "10s": 10 * time.Second,
		"100ms": 100 * time.Millisecond, "6m": 6 * time.Minute, "1h30m": 90 * time.Minute, "0": 0, "0s": 0, "1y": 365 * day,
	} {
		if got, err := config.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "-1s", "1.5h", "1d1d", "1m1d", "5 m", "5M", "1us", "d", "999999999999w", "１s", "1e3s", "forever"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "2w": 14 * day, "36h": 36 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute, "6m30s": 390 * time.Second, "360s": 6 * time.Minute, "100ms": 100 * time.Millisecond,
	} {
		if got, err := config.ParseAge(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"6m": "180d", "1y6m": "180d", "1d1m": "30d", "2w3m": "90d", "999999999999m": "out", "soon": "no duration"} {
		got, err := config.ParseAge(text)
		if err == nil {
			t.Errorf("%q: %s", text, got)
		} else if want != "out" && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"14d": 14 * day, "1d12h": 36 * time.Hour, "1h30m10s5ms": 90*time.Minute + 10*time.Second + 5*time.Millisecond, "0s": 0, "1.5µs": 1500, "-1s": -time.Second,
	} {
		if got := config.FormatDuration(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(100*365*day/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		if got, err := config.ParseDuration(config.FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%s became %s, %v", d, got, err)
		}
	})
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"256KiB": 262144, "16MiB": 16 << 20, "1MB": 1_000_000, "0": 0, "262144": 262144, "1 GiB": 1 << 30, "5B": 5, "7k": 7000,
	} {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5MB", "1,000", "1XB", "MB", "1e3", "NaN", "9999999999999999999", "999999999999999999GiB", "1TB"} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
	for want, n := range map[string]int64{"256KiB": 262144, "1GiB": 1 << 30, "16MiB": 16 << 20, "1000000": 1_000_000, "0": 0, "1025": 1025} {
		if got := config.FormatSize(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
