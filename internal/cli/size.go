package cli

import "example.com/whctl/internal/config"

// sizeFlag is a flag that takes sizes as the configuration does: 262144, 256KiB, 16MiB.
type sizeFlag int64

// Set parses what was typed.
func (s *sizeFlag) Set(text string) error {
	v, err := config.ParseSize(text)
	*s = sizeFlag(v)
	return err
}

func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return config.FormatSize(int64(*s))
}

// Type is what help calls the value.
func (*sizeFlag) Type() string { return "SIZE" }
