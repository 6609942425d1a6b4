package sweep

import (
	"fmt"
	"slices"
	"time"

	"example.com/whctl/internal/work"
)

// Judge says why a sweep by p may not begin, nil if it may. A version means one thing for
// ever (work.ErrConfig); one that keeps for less time than the version that was last swept
// by, or is about more states, must have been previewed since then (work.ErrRefused), unless the age is given by hand.
func Judge(p work.Retention, known []work.RetentionVersion, byHand bool) error {
	var own, last work.RetentionVersion
	for _, v := range known {
		if v.Version == p.Version {
			own = v
		} else if v.SweptAt.After(last.SweptAt) {
			last = v
		}
	}
	if own.Definition != "" && own.Definition != p.Definition() {
		return fmt.Errorf("%w: retention policy %s has changed under the same version %d: it was %q, and is %q now; raise retention.%s.version",
			work.ErrConfig, p.Name, p.Version, own.Definition, p.Definition(), p.Name)
	}
	if byHand || last.SweptAt.IsZero() || own.SweptAt.After(last.SweptAt) || p.Keep >= last.Keep && !adds(p, last) || own.PreviewedAt.After(last.SweptAt) {
		return nil
	}
	if adds(p, last) {
		return fmt.Errorf("%w: retention policy %s is about more states in version %d than in version %d, which was last swept by; look at what would go first: whctl dry-run cutoff --policy %s",
			work.ErrRefused, p.Name, p.Version, last.Version, p.Name)
	}
	return fmt.Errorf("%w: retention policy %s keeps for %s in version %d, less than the %s of version %d, which was last swept by; look at what would go first: whctl dry-run cutoff --policy %s",
		work.ErrRefused, p.Name, days(p.Keep), p.Version, days(last.Keep), last.Version, p.Name)
}

// Admit says why one sweep may not remove so many deliveries of so many in all.
func Admit(p work.Retention, candidates, total int64) error {
	if p.MaxRows > 0 && candidates > p.MaxRows {
		return fmt.Errorf("%w: a sweep by policy %s would remove more than max_rows: %d; see: whctl dry-run cutoff --policy %s", work.ErrRefused, p.Name, p.MaxRows, p.Name)
	}
	if p.MaxFraction > 0 && float64(candidates) > p.MaxFraction*float64(total) {
		return fmt.Errorf("%w: a sweep by policy %s would remove %d of %d deliveries, more than max_fraction: %g; see: whctl dry-run cutoff --policy %s",
			work.ErrRefused, p.Name, candidates, total, p.MaxFraction, p.Name)
	}
	return nil
}

// adds says that p is about a state that the version was not about.
func adds(p work.Retention, v work.RetentionVersion) bool {
	return slices.ContainsFunc(p.States, func(s work.State) bool { return !v.Covers(s) })
}

func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}
