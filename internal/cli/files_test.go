package cli

import (
	"errors"
	"testing"

	"example.com/whctl/internal/work"
)

func TestPlacesWithin(t *testing.T) {
	for _, x := range []struct {
		files        uint64
		wanted, want int
	}{
		{1 << 20, 10000, 10000},
		{1024, 256, 256},
		{1024, 310, 309},
		{256, 256, 53},
		{99, 256, 1},
		{1<<64 - 1, 256, 256}, // RLIM_INFINITY
	} {
		if got, err := placesWithin(x.files, x.wanted); err != nil || got != x.want {
			t.Errorf("%d of %d files: %d, %v, want %d", x.wanted, x.files, got, err, x.want)
		}
	}
	if _, err := placesWithin(98, 1); !errors.Is(err, work.ErrConfig) {
		t.Errorf("%v", err)
	}
}
