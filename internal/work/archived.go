package work

import (
	"fmt"
	"slices"
	"time"
)

// Archived is a finished delivery with all that a sweep removes of it.
type Archived struct {
	Envelope
	CreatedAt   time.Time
	FinishedAt  time.Time
	State       State // Delivered, Dead, Cancelled or Discarded
	Generation  int   // at least 1
	Attempts    int   // in this generation
	Class       Class // of the last outcome; "" without one
	Status      int   // of the last outcome; 0: none was received
	Reason      Reason
	Fingerprint string
	History     []Attempt // of every generation, the oldest first
}

// ArchiveMark says where in which archive a batch stands.
type ArchiveMark struct {
	File       string // base name
	Offset     int64  // bytes before the batch
	Bytes      int64  // of the compressed batch
	SHA256     []byte // of those bytes
	Deliveries int
	Attempts   int // of all those deliveries
}

// Check says what keeps a from being put back into the tables as it is, or nil.
func (a *Archived) Check() error {
	if err := CheckDeliveryID(a.DeliveryID); err != nil {
		return err
	}
	switch a.State {
	case Delivered, Dead, Cancelled, Discarded:
	default:
		return fmt.Errorf("state %q is none of a finished delivery", a.State)
	}
	switch {
	case a.Generation < 1 || a.Attempts < 0:
		return fmt.Errorf("generation %d with %d attempts", a.Generation, a.Attempts)
	case a.Class != "" && !a.Class.Known():
		return fmt.Errorf("class %q is not known", a.Class)
	case !slices.Contains(reasons[:], a.Reason):
		return fmt.Errorf("reason %q is not known", a.Reason)
	case a.Body != BodyUnset && a.Body != BodyEnvelope && a.Body != BodyRaw:
		return fmt.Errorf("body %q is not known", a.Body)
	}
	for i := range a.History {
		if err := a.History[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Attempt) check() error {
	switch {
	case t.Generation < 1 || t.Number < 1 || t.Latency < 0:
		return fmt.Errorf("attempt %d of generation %d with a latency of %s", t.Number, t.Generation, t.Latency)
	case !t.Class.Known():
		return fmt.Errorf("attempt %d of generation %d: class %q is not known", t.Number, t.Generation, t.Class)
	}
	return nil
}

// Restored is what became of a delivery that was to be put back.
type Restored struct {
	DeliveryID  string
	Destination string
	Result      RestoreResult
}

// RestoreResult says what became of it.
type RestoreResult string

// What may become of it.
const (
	RestoreDone          RestoreResult = "restored"
	RestoreExists        RestoreResult = "exists"         // by its id or its logical key; what is there stays
	RestoreNoDestination RestoreResult = "no_destination" // its destination is gone
)
