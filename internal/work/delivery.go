package work

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinels that every floor compares with errors.Is.
var (
	ErrNotFound    = errors.New("not found")                 // nothing has that id or name
	ErrUnreachable = errors.New("database unreachable")      // it cannot be reached, refuses the log-in, is read-only, or was lost
	ErrSchema      = errors.New("schema does not fit")       // missing, older or newer than this binary knows
	ErrGrant       = errors.New("the role lacks a grant")    // SQLSTATE 42501
	ErrConfig      = errors.New("configuration error")       // what was configured cannot be used
	ErrUsage       = errors.New("usage")                     // what was asked for makes no sense; nothing was touched
	ErrRefused     = errors.New("refused")                   // a guard said no, or a threshold is breached
	ErrUnknown     = errors.New("outcome of commit unknown") // the link broke before COMMIT was answered
	ErrData        = errors.New("refused by the database")   // the content of a row, not the way it was written
	ErrContended   = errors.New("a statement was given up")  // cancelled on the server, or in the way of others
	ErrBusy        = errors.New("another run is at it")      // and this one was not to work beside it
	ErrArchive     = errors.New("the archive fails")         // nothing of the batch was removed
	ErrNoWorker    = errors.New("the worker is not known")   // it was silent for too long, and its shares were given away
)

// BodyKind is what the body of a request is made of.
type BodyKind string

// The kinds of body.
const (
	BodyUnset    BodyKind = ""         // not fixed at enqueue: the destination's policy decides at each attempt
	BodyEnvelope BodyKind = "envelope" // a JSON object around the payload
	BodyRaw      BodyKind = "raw"      // the payload's bytes alone
)

// Limits of the texts of an event, in bytes. They keep the logical key well
// under what a B-tree page can index.
const (
	MaxDeliveryID   = 128
	MaxTenant       = 256
	MaxSubject      = 1024
	MaxEventType    = 256
	MaxEventVersion = 256
	MaxEventID      = 512
	MaxDestination  = 63
)

// CheckDeliveryID says what is wrong with a delivery id, or nil.
func CheckDeliveryID(id string) error {
	if id == "" || len(id) > MaxDeliveryID || strings.ContainsFunc(id, func(r rune) bool { return !letterOrDigit(r) && !strings.ContainsRune("._:-", r) }) {
		return fmt.Errorf("delivery id %q: want 1 to %d of A-Z a-z 0-9 . _ : -", id, MaxDeliveryID)
	}
	return nil
}

// CheckDestinationName says what is wrong with a destination's name, or nil.
func CheckDestinationName(name string) error {
	if name == "" || len(name) > MaxDestination || !letterOrDigit(rune(name[0])) ||
		strings.ContainsFunc(name, func(r rune) bool { return !letterOrDigit(r) && !strings.ContainsRune("._-", r) }) {
		return fmt.Errorf("destination name %q: want 1 to %d of A-Z a-z 0-9 . _ -, beginning with a letter or digit", name, MaxDestination)
	}
	return nil
}

func letterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// Envelope is what never changes about a delivery.
type Envelope struct {
	DeliveryID   string // the public id; it is the idempotency key on every attempt
	Destination  string
	Tenant       string
	Subject      string
	EventType    string
	EventVersion string
	EventID      string
	EventAt      time.Time
	NotAfter     time.Time // zero: no business deadline
	Body         BodyKind
	Payload      []byte
}

// Destination is a named receiver endpoint. It never holds a credential: header
// values and keys are references.
type Destination struct {
	ID          int64
	Name        string
	URL         string
	Policy      string
	Key         string               // name of a configured signing key; "" signs nothing
	Headers     map[string]Reference // sent beside whctl's own
	MaxInFlight int                  // 0: the policy's
	Rate        string               // such as 50/s; "": the policy's
	Tenants     []string             // for completion and review; empty: any
	Body        BodyKind             // fixed by `destination apply`; BodyUnset for a row put in by hand
	PayloadMax  int64                // bytes, fixed by `destination apply`; 0: the default of 256 KiB
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Health      Health
	Suspects    bool  // it has open deliveries whose last attempt was lost; only with what is due
	Fault       error // why the row cannot be used as it stands, as after an edit by hand; nil: it can
}

// Reference says where a secret value comes from: one of an environment variable
// or a file. The value itself is never stored.
type Reference struct {
	Env  string `json:"env,omitempty" yaml:"env,omitempty" koanf:"env"`
	File string `json:"file,omitempty" yaml:"file,omitempty" koanf:"file"`
}
