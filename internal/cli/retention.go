package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/work"
)

// reach is which policies a command is about, and how far back they go: as configured, or
// as given by hand.
type reach struct {
	policies  []string
	olderThan time.Duration
	before    time.Time
}

func (r *reach) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&r.policies, "policy", nil, "only this retention policy `NAME`; may be repeated")
	f.Var((*ageFlag)(&r.olderThan), "older-than", "what finished longer than `AGE` ago, such as 30d, instead of what the policy keeps")
	f.Var((*instantFlag)(&r.before), "before", "what finished before `TIME`, such as 2026-11-01 or 2026-11-01T12:00:00Z, instead of what the policy keeps")
	// The flag exists, and has no words yet.
	_ = cmd.RegisterFlagCompletionFunc("policy", a.retentionWords)
}

func (r *reach) validate(cmd *cobra.Command) error {
	switch {
	case slices.Contains(r.policies, ""):
		return usage("--policy: an empty name means none, not all")
	case cmd.Flags().Changed("older-than") && cmd.Flags().Changed("before"):
		return usage("--older-than and --before exclude each other")
	}
	return nil
}

func (r *reach) byHand() bool { return r.olderThan > 0 || !r.before.IsZero() }

// of is how far back a sweep by p goes.
func (r *reach) of(p work.Retention, window time.Duration) work.Reach {
	reach := work.Reach{Age: r.olderThan, Before: r.before, Window: window, ByHand: r.byHand(), SpareDead: r.byHand() && len(r.policies) == 0}
	if !r.byHand() {
		reach.Age = p.Keep
	}
	return reach
}

// selected are the policies, by their names. An age given by hand without a policy is for
// deliveries that are finished for good: dead letters wait for a person, and go only by a
// policy that is named.
func (r *reach) selected(c *config.Config) ([]work.Retention, error) {
	if len(r.policies) > 0 {
		return r.named(c)
	}
	var out []work.Retention
	for _, name := range slices.Sorted(maps.Keys(c.Retention.Policies)) {
		p := retention(c.Retention.Policies[name])
		if r.byHand() && (p.Target == work.TargetAttempts || len(r.of(p, 0).States(p)) == 0) {
			continue
		}
		out = append(out, p)
	}
	if len(out) == 0 && r.byHand() {
		return []work.Retention{{
			Name: config.FinishedPolicy, Version: 1, Target: work.TargetDeliveries, Keep: config.DefaultKeep, Batch: config.DefaultBatch,
			States: []work.State{work.Delivered, work.Cancelled, work.Discarded},
		}}, nil
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: there is no retention policy; write one (retention: in the configuration), or give an age by hand: --older-than 90d", work.ErrConfig)
	}
	return out, nil
}

func (r *reach) named(c *config.Config) ([]work.Retention, error) {
	var out []work.Retention
	for _, name := range unique(r.policies) {
		p, known := c.Retention.Policies[name]
		if !known {
			return nil, usage("--policy %q: there is no such retention policy (configured: %s)", name, orNone(slices.Sorted(maps.Keys(c.Retention.Policies))))
		}
		out = append(out, retention(p))
	}
	return out, nil
}

func retention(p config.RetentionPolicy) work.Retention {
	r := work.Retention{
		Name: p.Name, Version: p.Version, Target: work.Target(p.Target), States: slices.Clone(p.States), Keep: p.Keep, Batch: p.Batch,
		MaxRows: p.MaxRows, MaxFraction: p.MaxFraction, Archive: p.ArchiveDir != "",
	}
	if r.Target == work.TargetAttempts {
		r.States = []work.State{work.Delivered, work.Cancelled, work.Discarded}
	}
	return r
}

// ageFlag takes ages as the configuration does: 90d, 2w, 36h, 1d12h. None is zero.
type ageFlag time.Duration

// Set parses what was typed.
func (d *ageFlag) Set(text string) error {
	v, err := config.ParseAge(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("%q: want more than 0", text)
	}
	*d = ageFlag(v)
	return err
}

func (d *ageFlag) String() string {
	if *d == 0 {
		return ""
	}
	return config.FormatDuration(time.Duration(*d))
}

// Type is what help calls the value.
func (*ageFlag) Type() string { return "AGE" }

// instantFlag takes an instant of RFC 3339, or a date, which is its midnight in UTC.
type instantFlag time.Time

// Set parses what was typed.
func (i *instantFlag) Set(text string) error {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		return fmt.Errorf("%q is no instant (write 2026-11-01, which is midnight UTC, or with time and zone 2026-11-01T12:00:00Z)", text)
	}
	if t.Year() < 1970 || t.Year() > 9999 { // year 1 is what programs write that know no time
		return fmt.Errorf("%q: want years 1970 to 9999", text)
	}
	*i = instantFlag(t.UTC())
	return nil
}

func (i *instantFlag) String() string {
	if time.Time(*i).IsZero() {
		return ""
	}
	return time.Time(*i).Format(time.RFC3339Nano)
}

// Type is what help calls the value.
func (*instantFlag) Type() string { return "TIME" }
