package work

import "time"

// PreviewRequest asks what a cutoff would remove.
type PreviewRequest struct {
	Policy Retention
	Reach  Reach
	// Current is what the policy keeps until now; what that would remove is counted beside.
	Current       time.Duration
	CurrentStates []State // that it is about until now; nil: the policy's
	// Exact is up to how many candidates they are counted one by one; above, and where that takes
	// too long, the planner's estimate is told.
	Exact int64
}

// Preview is what a cutoff would remove, at one instant.
type Preview struct {
	Policy    string
	Version   int
	Target    Target
	Cutoff    time.Time
	AsOf      time.Time // the database's clock
	Estimated bool      // the planner's estimates; what only counting tells is left out

	// Candidates are the deliveries before the cutoff. Those of Window are protected, all others go.
	Candidates    int64
	Attempts      int64
	Bytes         int64 // an estimate: with indexes, as the tables are now
	Oldest        time.Time
	Newest        time.Time
	ByState       map[State]int64
	ByDestination []DestinationCount // the largest first

	InFlight    int64 // leased, and put in before the cutoff
	NotTerminal int64 // scheduled, and put in before the cutoff
	Dead        int64 // dead before the cutoff, and not in the policy's states
	Window      int64 // delivered before the cutoff, but so lately that a duplicate may yet come

	Current           time.Duration
	CurrentCandidates int64
	PerSecond         float64 // deliveries removed in a second by the last batches; 0: not known
}

// Removed is how many deliveries a sweep would remove.
func (p Preview) Removed() int64 { return p.Candidates - p.Window }

// DestinationCount is how many deliveries of a destination there are.
type DestinationCount struct {
	Destination string
	Count       int64
	Oldest      time.Time
}
