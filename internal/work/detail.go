package work

import (
	"time"

	"github.com/google/uuid"
)

// Detail is everything about one delivery but its payload, at one instant.
type Detail struct {
	Envelope       // Payload is left out
	PayloadBytes   int64
	State          State
	Generation     int
	Attempts       int       // in this generation, the open one included
	NextAttemptAt  time.Time // zero once it is finished
	LeaseHolder    string    // label of the worker that holds the lease; "" without a lease
	LeaseExpiresAt time.Time // zero without a lease
	Class          Class     // of the last outcome; "" before the first
	Status         int       // of the last outcome; 0: none was received
	Reason         Reason
	Fingerprint    string
	CreatedAt      time.Time
	FinishedAt     time.Time // zero until it is finished
	AsOf           time.Time // the database's clock when it was read
	History        []Attempt // of every generation, the oldest first
	Acts           []Act     // what people did to it, the oldest first
}

// Attempt is one try of one delivery.
type Attempt struct {
	ID         uuid.UUID
	Generation int
	Number     int // counted from 1 in the generation
	Worker     string
	StartedAt  time.Time
	FinishedAt time.Time // zero while it is open
	Class      Class     // "" while it is open
	Status     int
	Latency    time.Duration // 0: not known
	Message    string
	Excerpt    string
}

// Act is what a person did to a delivery.
type Act struct {
	At       time.Time
	Operator string // who it was, by the client's word
	Role     string // the database role that had logged in
	Action   string
	Reason   string
}

// Cancellation is the wish that a delivery is not sent any more.
type Cancellation struct {
	DeliveryID string
	Reason     string // not blank; it goes on record
	Operator   string // "": the database role that logged in
}
