package peer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Done is what a peer prints about its work.
type Done struct {
	Units   int
	Seconds float64
}

// Ceiling is the bare client: what HTTP can do at most.
type Ceiling struct {
	To       string // the receiver's URL
	N        int    // requests
	InFlight int
	Size     int // of a payload, in bytes
}

// Post sends the requests, signed, with nothing else to do.
func (c Ceiling) Post(ctx context.Context) (Done, error) {
	target, err := url.Parse(c.To + "/d/0")
	if err != nil {
		return Done{}, err
	}
	p := newPoster(c.InFlight)
	body := Body(strings.Repeat("0", 36), "s0000000000", Payload(0, c.Size))
	var sent atomic.Int64
	failed := make([]error, c.InFlight)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range c.InFlight {
		wg.Go(func() {
			for failed[i] == nil {
				n := sent.Add(1)
				if n > int64(c.N) {
					return
				}
				failed[i] = p.post(ctx, target, fmt.Sprintf("%036d", n), body)
			}
		})
	}
	wg.Wait()
	return Done{c.N, time.Since(begun).Seconds()}, errors.Join(failed...)
}
