package work

import (
	"time"

	"github.com/google/uuid"
)

// Ask is what a worker asks of one destination in a claim.
type Ask struct {
	DestinationID int64
	Mark          time.Time     // due rows before it are passed over; zero: from the beginning
	Room          int           // how many may be claimed at most
	Lease         time.Duration // for how long
	Suspects      bool          // only those whose last attempt was lost; else only the others
	// Ticket: the destination has a rate, or its circuit is half open. How many may be
	// claimed is asked of ClaimRequest.Admit, while no other worker can ask.
	Ticket bool
}

// ClaimRequest is one claim: as many deliveries as there are free places.
type ClaimRequest struct {
	Owner      string      // of the leases: the worker's label, '#', a random id per process
	Asks       []Ask       // rooms add up to at most len(AttemptIDs)
	AttemptIDs []uuid.UUID // one for each free place
	InlineMax  int         // payloads up to this many bytes come with the claim; larger ones are left out
	// Admit is the room for a destination with a ticket, of at most room; Spend its health
	// after so many have been claimed. asOf is the database's clock. Both are needed only
	// where an ask has a ticket, and may be called more than once.
	Admit func(asOf time.Time, h Health, room int) int
	Spend func(asOf time.Time, h Health, taken int) Health
}

// ClaimResult is what a claim took.
type ClaimResult struct {
	Claimed []Claimed
	Health  []Health // of the asks with tickets, after the claim; without those that another worker was asking about
}

// Claimed is a delivery taken under a lease: the start of an attempt, or (Lost)
// the remains of another worker's.
type Claimed struct {
	ID            int64     // row id: envelopes.id = deliveries.id
	AttemptID     uuid.UUID // of this attempt, or of the lost one
	Generation    int
	Attempt       int // its number in the generation, counted from 1
	DestinationID int64
	Due           time.Time // when it became due
	Lost          bool      // another worker's attempt whose lease ran out: close it, do not send
	Suspect       bool      // its last attempt was lost: it may be what killed that worker
	Holder        string    // owner of the lease that ran out, with Lost
	Expired       bool      // not_after has passed: cancel it, do not send
	PayloadBytes  int       // size of the payload, also when Envelope.Payload was left out
	Envelope      Envelope
}

// Move is where a result moves its delivery.
type Move int

// The moves. Release and MoveCancelled charge no attempt and write none.
const (
	MoveScheduled Move = iota // due again after Delay
	MoveDelivered
	MoveDead
	MoveCancelled
	MoveRelease // due as it was: it was claimed and provably not sent
)

// Result is what is recorded about one claimed delivery. It is written only while
// the delivery is still leased to the owner under the same attempt id.
type Result struct {
	ID          int64
	AttemptID   uuid.UUID
	Worker      string // whose attempt it was; "": the owner who records it
	Move        Move
	Delay       time.Duration // MoveScheduled: from the moment of recording
	Reason      Reason        // MoveDead, MoveCancelled
	Fingerprint string        // MoveDead
	Outcome     Outcome       // not for MoveCancelled and MoveRelease
}

// Fate is what became of a result when it was recorded.
type Fate int

// The fates.
const (
	Written Fate = iota // under the fence; also when a repeat found it written
	Late                // the lease had been taken over; nothing moved
	LateOK              // the lease had been taken over, but it was a success: the delivery is delivered now
)

// Backlog is what is due at a destination and not leased.
type Backlog struct {
	DestinationID int64
	Due           int64
	OldestAge     time.Duration // how long the oldest has been due
}
