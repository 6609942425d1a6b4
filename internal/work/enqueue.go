package work

import "time"

// Order is a delivery that a producer asks for.
type Order struct {
	DeliveryID    string // of this delivery, if it is enqueued
	Destination   string // its name
	DestinationID int64  // its row
	Tenant        string
	Subject       string
	EventType     string
	EventVersion  string
	EventID       string
	EventAt       *time.Time // nil: the moment it is enqueued
	NotBefore     *time.Time // due then; nil: at once
	NotAfter      *time.Time // cancelled instead of sent after it; nil: no business deadline
	Body          BodyKind
	Payload       []byte
}

// Receipt is what became of an order.
type Receipt struct {
	Result     EnqueueResult
	DeliveryID string // enqueued: the order's own; duplicate and conflict: of the delivery that was there before
	Taken      bool   // conflict: not the event is known, but its delivery id belongs to another event
}

// EnqueueResult is how an order ended.
type EnqueueResult string

// The results. The last two write nothing, as a conflict does.
const (
	Enqueued           EnqueueResult = "enqueued"
	Duplicate          EnqueueResult = "duplicate"           // the same event with the same payload was there before
	Conflict           EnqueueResult = "conflict"            // the same event with another payload, or a delivery id that is taken
	UnknownDestination EnqueueResult = "unknown_destination" // no destination has that name
	Expired            EnqueueResult = "expired"             // not_after lies before the due time
)
