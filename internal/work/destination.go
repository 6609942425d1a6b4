package work

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DestinationLoad counts the deliveries that a destination still has to do with.
type DestinationLoad struct {
	Scheduled int64 // without a lease, due or not
	Due       int64 // of those, due now
	InFlight  int64 // under a live lease
	Stuck     int64 // under a lease that ran out and was not taken over yet
	Dead      int64
}

// Needed says that a destination may not go: something may still have to be sent there.
func (l DestinationLoad) Needed() bool { return l.Scheduled+l.InFlight+l.Stuck+l.Dead > 0 }

// DestinationAct is what a person does about a destination, and why.
type DestinationAct struct {
	Name     string
	Operator string
	Reason   string
}

// DestinationAction is what applying a list of destinations does to one.
type DestinationAction string

// The actions.
const (
	DestinationCreated   DestinationAction = "created"
	DestinationChanged   DestinationAction = "changed"
	DestinationUnchanged DestinationAction = "unchanged"
	DestinationRemoved   DestinationAction = "removed"
	DestinationKept      DestinationAction = "kept" // not in the list, but still needed
)

// DestinationChange is what became of one destination, and why.
type DestinationChange struct {
	Name   string
	Action DestinationAction
	Fields []FieldChange   // of a created or changed one
	Load   DestinationLoad // of a kept one
}

// FieldChange is a value before and after. A URL in it may hold a secret.
type FieldChange struct{ Field, From, To string }

// DestinationURL is the field of a FieldChange that is an address.
const DestinationURL = "url"

// Changes lists the fields in which to differs from d, in the order of the file.
func (d Destination) Changes(to Destination) []FieldChange {
	before, after := d.fields(), to.fields()
	var changes []FieldChange
	for i, f := range after {
		if f.value != before[i].value {
			changes = append(changes, FieldChange{Field: f.name, From: before[i].value, To: f.value})
		}
	}
	return changes
}

type field struct{ name, value string }

func (d Destination) fields() []field {
	return []field{
		{DestinationURL, d.URL},
		{"policy", d.Policy},
		{"key", d.Key},
		{"max_in_flight", numberOrNone(int64(d.MaxInFlight))},
		{"rate", d.Rate},
		{"headers", d.HeaderText()},
		{"tenants", d.TenantText()},
		{"body", string(d.Body)},
		{"payload_max", numberOrNone(d.PayloadMax)},
	}
}

func numberOrNone(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// HeaderText is the headers and their references on one line.
func (d Destination) HeaderText() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		parts = append(parts, name+": "+d.Headers[name].String())
	}
	return strings.Join(parts, ", ")
}

// TenantText is the tenants on one line, each quoted, for one may hold a comma.
func (d Destination) TenantText() string {
	quoted := make([]string, len(d.Tenants))
	for i, t := range d.Tenants {
		quoted[i] = strconv.Quote(t)
	}
	return strings.Join(quoted, ", ")
}

// String is the reference for people: env NAME, or file PATH.
func (r Reference) String() string {
	switch {
	case r.Env != "":
		return "env " + r.Env
	case r.File != "":
		return "file " + r.File
	}
	return ""
}
