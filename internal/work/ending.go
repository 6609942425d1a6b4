package work

// Ending is what became of one claimed delivery, as metrics count it.
type Ending string

// The endings; they add up to what was claimed.
const (
	EndDelivered  Ending = "delivered"
	EndRetried    Ending = "retried"
	EndDead       Ending = "dead"
	EndCancelled  Ending = "cancelled"
	EndReleased   Ending = "released"
	EndLate       Ending = "late"
	EndUnrecorded Ending = "unrecorded"
)

// Endings lists them all.
func Endings() []Ending {
	return []Ending{EndDelivered, EndRetried, EndDead, EndCancelled, EndReleased, EndLate, EndUnrecorded}
}
