package work

import "time"

// Letter is a dead letter as lists show it.
type Letter struct {
	DeliveryID   string
	Destination  string
	Tenant       string
	Subject      string
	EventType    string
	EventVersion string
	Class        Class
	Status       int // 0: none was received
	Reason       Reason
	Fingerprint  string
	Attempts     int // in this generation
	Generation   int
	EventAt      time.Time
	DiedAt       time.Time
	PayloadBytes int64
}

// LetterFilter selects dead letters. Values are compared whole, never as patterns. The
// values of one field are alternatives; a field without values does not restrict.
type LetterFilter struct {
	Destinations []string
	Tenants      []string
	EventTypes   []string
	Classes      []Class
	Statuses     []int
}

// LetterPlace is a place in the list of dead letters, which goes by the time of death
// and then by the order in which the deliveries came in. The zero value is before the
// first.
type LetterPlace struct {
	DiedAt     time.Time
	DeliveryID string
}

// LetterQuery asks for the dead letters behind a place.
type LetterQuery struct {
	Filter LetterFilter
	After  LetterPlace
	Limit  int // at least 1
}
