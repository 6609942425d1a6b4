package cli

import (
	"time"

	"example.com/whctl/internal/config"
)

// durationFlag is a flag that takes durations as the configuration does: 50s, 36h, 1d12h.
type durationFlag time.Duration

// Set parses what was typed.
func (d *durationFlag) Set(text string) error {
	v, err := config.ParseDuration(text)
	*d = durationFlag(v)
	return err
}

func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return config.FormatDuration(time.Duration(*d))
}

// Type is what help calls the value.
func (*durationFlag) Type() string { return "DURATION" }
