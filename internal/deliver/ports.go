package deliver

import (
	"context"
	"log/slog"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// Store is the work table as a run sees it. Its calls go on trying for a few seconds
// while the database is out of reach; an error that wraps work.ErrUnreachable means
// that they gave up.
type Store interface {
	Claims
	Healths
	// Payload reads what a claim left out.
	Payload(ctx context.Context, id int64) ([]byte, error)
	// Backlog counts what is due and not leased.
	Backlog(ctx context.Context) ([]work.Backlog, error)
}

// Claims are the way of a delivery through a run.
type Claims interface {
	// Survey lists who has something due, the one that waited longest first.
	Survey(ctx context.Context) (work.Survey, error)
	// Claim starts attempts, at most as many as there are attempt ids. On an error none
	// of them is sent. A worker that has not made itself known gets work.ErrNoWorker.
	Claim(ctx context.Context, r work.ClaimRequest) (work.ClaimResult, error)
	// Record writes results; a repeat changes nothing.
	Record(ctx context.Context, owner string, results []work.Result) ([]work.Fate, error)
}

// Healths are what all workers share about destinations.
type Healths interface {
	// Beat makes a worker known, and whether it waits to be woken; it tells how many others
	// there are, and whether it was known.
	Beat(ctx context.Context, owner string, waiting bool) (others int, known bool, err error)
	// Shares asks for places in the destinations' caps, and gives up those that are not
	// named. A worker that has not made itself known gets work.ErrNoWorker.
	Shares(ctx context.Context, owner string, wants []work.Want) ([]work.Share, error)
	// Judge changes the health of destinations, each while nobody else does, and answers
	// with what it is now.
	Judge(ctx context.Context, trials []work.Trial, judge func(asOf time.Time, h work.Health, t work.Trial) work.Health) ([]work.Health, error)
	// Leave gives up what a worker had; none: it has nothing leased.
	Leave(ctx context.Context, owner string, none bool) error
}

// Endpoint is a destination made ready for sending.
type Endpoint struct {
	Policy policy.Policy // with the limits of the destination where it has its own
	// Send makes one request and answers with its outcome, whatever happens. It ends
	// within timeout, or soon after ctx does.
	Send func(ctx context.Context, c work.Claimed, body []byte, timeout time.Duration) work.Outcome
}

// Options are the bounds of a run and what it needs besides the work table.
type Options struct {
	Owner        string        // of the leases: label, '#', a random id per process
	Places       int           // requests in flight at most
	Limit        int           // deliveries attempted at most; 0: no bound
	MaxTime      time.Duration // nothing is claimed after it; 0: no bound
	Grace        time.Duration // how long a stop waits for requests in flight
	Destinations []string      // only these, where there are any
	// Endpoint makes a destination ready. An error holds its deliveries back, untouched.
	Endpoint func(d work.Destination) (Endpoint, error)
	// Guard is the question whether a delivery is still to be sent; nil, itself or what it
	// answers, where there is none.
	Guard   func(c work.Claimed) func(ctx context.Context) (bool, error)
	Random  func() float64 // in [0,1), for jitter
	Log     *slog.Logger
	Observe Observer // of what the run does; nil: nobody
	// Wake says that something was put in, to a worker that waits; nil: it looks by itself
	// from time to time.
	Wake <-chan struct{}
	// PayloadMemory is how many bytes of payloads are held at a time; 0: 16 MiB.
	PayloadMemory int64
	// Grow is told how many destinations the run keeps in mind, when they are more than
	// before; nil: nobody is.
	Grow func(destinations int)
}

// StoppedBy says why a run ended.
type StoppedBy string

// The reasons for a run's end.
const (
	Drained StoppedBy = "drained" // nothing is due that this run could take
	Limit   StoppedBy = "limit"
	MaxTime StoppedBy = "max_time"
	Signal  StoppedBy = "signal"
	Failed  StoppedBy = "error" // the run could not go on
)
