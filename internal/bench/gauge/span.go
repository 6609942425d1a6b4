package gauge

import (
	"os"
	"time"
)

// Watch says whose processor time is told apart, by process id; 0 is nobody.
type Watch struct{ Postgres, Receiver int }

// Span is a run that is being measured.
type Span struct {
	watch                          Watch
	begun                          time.Time
	self, postgres, receiver, busy time.Duration
}

// Begin starts a measurement.
func Begin(w Watch) Span {
	return Span{
		watch: w, self: own(os.Getpid()), postgres: tree(w.Postgres), receiver: own(w.Receiver), busy: busy(), begun: time.Now(),
	}
}

// Cost is what a run took.
type Cost struct {
	Wall     time.Duration
	Program  time.Duration // of the program that was measured
	Postgres time.Duration // of the server and all its processes
	Receiver time.Duration
	Other    float64 // cores that anything else on the machine kept busy meanwhile
	Peak     int64   // largest resident size of the program, in bytes
}

// End ends the measurement of a program that was started for it and has ended, with the
// processor time that it took.
func (s Span) End(program time.Duration) Cost {
	c, self := s.stop()
	c.Program = program
	return c.others(s, self+program)
}

// EndHere ends the measurement of what this program did itself.
func (s Span) EndHere() Cost {
	c, self := s.stop()
	c.Program = self
	return c.others(s, self)
}

func (s Span) stop() (c Cost, self time.Duration) {
	return Cost{
		Wall: time.Since(s.begun), Postgres: tree(s.watch.Postgres) - s.postgres, Receiver: own(s.watch.Receiver) - s.receiver,
	}, own(os.Getpid()) - s.self
}

func (c Cost) others(s Span, ours time.Duration) Cost {
	rest := busy() - s.busy - ours - c.Postgres - c.Receiver
	c.Other = max(0, rest.Seconds()/c.Wall.Seconds())
	return c
}
