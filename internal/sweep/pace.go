package sweep

import "time"

const (
	// slow is how long a batch may take before the next one is made smaller: it holds locks
	// for as long.
	slow = 500 * time.Millisecond
	// leastPart of the batch that was asked for is what it may shrink to.
	leastPart = 16
	// patience is how many batches in a row may be given up because others were in the way.
	patience = 10
)

// pace is how large the next batch is.
type pace struct {
	most, now int
	given     int // up, in a row
}

func newPace(most int) pace { return pace{most: most, now: most} }

// took adapts to how long a batch took.
func (p *pace) took(d time.Duration) {
	p.given = 0
	switch {
	case d > slow:
		p.shrink()
	case d < slow/4:
		p.now = min(p.most, p.now*2)
	}
}

// contended makes the batch smaller after one that was given up; false when it has been
// so too often.
func (p *pace) contended() bool {
	p.given++
	p.shrink()
	return p.given < patience
}

func (p *pace) shrink() { p.now = max(p.now/2, (p.most+leastPart-1)/leastPart) }
