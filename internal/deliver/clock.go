package deliver

import "time"

// clock tells the database's time between its answers. It is late by as long as the
// last answer was under way, so that nothing is asked for too early.
type clock struct{ asOf, at time.Time }

func (c *clock) set(asOf time.Time) { c.asOf, c.at = asOf, time.Now() }

func (c *clock) now() time.Time { return c.asOf.Add(time.Since(c.at)) }
