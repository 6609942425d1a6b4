package work

import (
	"reflect"
	"testing"
)

func TestDestinationChanges(t *testing.T) {
	from := Destination{
		Name: "a", URL: "https://a.example/", Policy: "default", Headers: map[string]Reference{"B": {Env: "B"}, "A": {File: "/a"}},
		Tenants: []string{"x,y", "z"}, MaxInFlight: 3, Body: BodyEnvelope, PayloadMax: 10,
	}
	if got := from.Changes(from); got != nil {
		t.Errorf("to itself: %v", got)
	}
	to := from
	to.ID, to.MaxInFlight, to.Rate, to.Headers, to.Tenants = 7, 0, "5/s", map[string]Reference{"A": {Env: "/a"}}, []string{"x", "y", "z"}
	want := []FieldChange{
		{"max_in_flight", "3", ""},
		{"rate", "", "5/s"},
		{"headers", "A: file /a, B: env B", "A: env /a"},
		{"tenants", `"x,y", "z"`, `"x", "y", "z"`},
	}
	if got := from.Changes(to); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestDestinationLoadNeeded(t *testing.T) {
	for load, want := range map[DestinationLoad]bool{
		{}: false, {Scheduled: 1}: true, {InFlight: 1}: true, {Stuck: 1}: true, {Dead: 1}: true,
	} {
		if load.Needed() != want {
			t.Errorf("%+v", load)
		}
	}
}
