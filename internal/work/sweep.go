package work

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Target is what a retention policy removes.
type Target string

// The targets.
const (
	TargetDeliveries Target = "deliveries" // finished deliveries, with envelope and attempts
	TargetAttempts   Target = "attempts"   // attempts of finished deliveries that are not dead, all but the last
)

// Retention is a policy of what is kept how long.
type Retention struct {
	Name        string
	Version     int // raised with each change of what the policy means
	Target      Target
	States      []State // of deliveries, for either target
	Keep        time.Duration
	Batch       int     // deliveries in one transaction at most
	MaxRows     int64   // deliveries in one sweep at most; 0: no bound
	MaxFraction float64 // the part of all deliveries that one sweep may remove; 0: no bound
	Archive     bool    // rows are written out before they go
}

// Definition says what a version of the policy means. How gently it sweeps is no part of it.
func (r Retention) Definition() string {
	states := make([]string, len(r.States))
	for i, s := range r.States {
		states[i] = string(s)
	}
	slices.Sort(states)
	kept := r.Keep.String()
	if day := 24 * time.Hour; r.Keep%day == 0 {
		kept = fmt.Sprintf("%dd", r.Keep/day)
	}
	text := fmt.Sprintf("%s of %s, kept for %s", r.Target, strings.Join(states, ", "), kept)
	if r.Archive {
		text += ", archived"
	}
	return text
}

// RetentionVersion is what is on record of a version of a policy.
type RetentionVersion struct {
	Version     int
	Definition  string
	Keep        time.Duration
	PreviewedAt time.Time // zero: never
	SweptAt     time.Time // when a sweep by it last ran; zero: never
}

// Covers says that the version is about deliveries in state s.
func (v RetentionVersion) Covers(s State) bool { return strings.Contains(v.Definition, string(s)) }

// Reach is what a sweep is asked to remove: what is older than Age, or finished before
// Before. One of the two is zero.
type Reach struct {
	Age    time.Duration
	Before time.Time
	// Window is how long after its delivery a duplicate may come: what was delivered within
	// it is left alone.
	Window time.Duration
	// ByHand says that the age or instant is not the policy's own.
	ByHand bool
	// SpareDead leaves dead letters alone, whatever the policy says.
	SpareDead bool
}

// States are the policy's, as far as the reach goes.
func (r Reach) States(p Retention) []State {
	return slices.DeleteFunc(slices.Clone(p.States), func(s State) bool { return r.SpareDead && s == Dead })
}

// SweepRequest asks for a sweep, a new one or one to carry on.
type SweepRequest struct {
	Policy Retention
	Reach  Reach
	Owner  string
	// Alone refuses, with ErrBusy, a sweep that another run is at.
	Alone bool
	// Judge is told of every known version of the policy; its error ends it.
	Judge func([]RetentionVersion) error
	// Admit is told how many deliveries a new sweep would remove, of how many; its error ends it. It is
	// asked only where the policy has bounds; candidates are counted up to one above MaxRows.
	Admit func(candidates, total int64) error
}

// Sweep is one retention pass.
type Sweep struct {
	ID       int64 // 0: there is nothing to remove, and none was begun
	Policy   string
	Version  int
	Cutoff   time.Time
	Protect  time.Time // delivered from then on: left alone
	Target   Target
	States   []State
	AsOf     time.Time // the database's clock
	Batches  int       // in the ledger before this run
	Finished bool
}

// SweepBatch asks for the next batch of a sweep.
type SweepBatch struct {
	Sweep Sweep
	Owner string
	Limit int           // deliveries looked at
	Hold  time.Duration // how long others are told that this run is at it
	// Archive is given the rows before they go; its error keeps them. nil: no archive.
	Archive func(batchKey string, rows []Archived) (ArchiveMark, error)
}

// Swept is what a batch did.
type Swept struct {
	Key        string // in the ledger; "" where nothing was removed
	Looked     int64  // deliveries dealt with, one way or another
	Deliveries int64
	Attempts   int64
	Skipped    int64 // held by another transaction at this moment
	Archived   int64 // bytes
	Last       bool  // there is nothing behind it
}

// Rest is what a sweep has not removed.
type Rest struct {
	Remaining int64 // still before it
	Window    int64 // delivered before the cutoff, but so lately that a duplicate may yet come
}

// Brakes is what a gentle sweep looks at.
type Brakes struct {
	Lag     time.Duration // of the replica that is furthest behind
	XminAge time.Duration // of the oldest transaction that keeps dead rows from being vacuumed
}

// BatchKey names a batch in the ledger: policy, version, cutoff and sequence.
func BatchKey(policy string, version int, cutoff time.Time, seq int) string {
	return fmt.Sprintf("%s/%d/%s/%d", policy, version, cutoff.UTC().Format("2006-01-02T15:04:05.000000Z"), seq)
}
