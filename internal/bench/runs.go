package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/peer"
	"example.com/whctl/internal/bench/stage"
)

// spend runs programs at the same time and measures them from their start to the end of
// the last. What they took is told also where one fails.
func (l *lab) spend(ctx context.Context, units int, cmds ...*exec.Cmd) (gauge.Run, []stage.Ended, error) {
	before, err := l.postgres.WAL(ctx)
	if err != nil {
		return gauge.Run{}, nil, err
	}
	ended := make([]stage.Ended, len(cmds))
	span := gauge.Begin(l.watch())
	var all errgroup.Group
	for i, cmd := range cmds {
		all.Go(func() (err error) {
			ended[i], err = stage.Run(cmd)
			return err
		})
	}
	failed := all.Wait()
	var cpu time.Duration
	var peak int64
	for _, e := range ended {
		cpu += e.CPU
		peak = max(peak, e.Peak)
	}
	run := gauge.Run{Cost: span.End(cpu), Units: float64(units)}
	run.Peak = peak
	after, err := l.postgres.WAL(ctx)
	run.WAL = after - before
	return run, ended, errors.Join(failed, err)
}

// play runs one of this program's parts. The rate is the part's own: what it takes to
// start and to end is left out.
func (l *lab) play(ctx context.Context, part string, what any) (gauge.Run, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return gauge.Run{}, err
	}
	cmd := exec.CommandContext(ctx, l.self, "play", part, string(text))
	cmd.Env = append(os.Environ(), "GOGC="+stage.GCPercent)
	run, ended, err := l.spend(ctx, 0, cmd)
	if err != nil {
		return run, err
	}
	var done peer.Done
	if err := json.Unmarshal(ended[0].Out, &done); err != nil {
		return run, err
	}
	run.Units, run.Wall = float64(done.Units), time.Duration(done.Seconds*float64(time.Second))
	return run, nil
}

// whctl runs the program on a database for what is not measured.
func (l *lab) whctl(ctx context.Context, d *stage.Database, args ...string) error {
	_, err := stage.Run(l.program.Command(ctx, d, args...))
	return err
}

// base is a migrated database with so many destinations, the first slow of which answer
// late.
func (l *lab) base(ctx context.Context, destinations, slow int) (*stage.Database, error) {
	d, err := l.postgres.Create(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.whctl(ctx, d, "migrate", "up"); err != nil {
		return nil, err
	}
	return d, d.Destinations(ctx, l.receiver.URL, destinations, slow)
}

// filled is a base with rows, ready to be copied.
func (l *lab) filled(ctx context.Context, destinations, slow int, rows ...stage.Rows) (*stage.Database, error) {
	d, err := l.base(ctx, destinations, slow)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		l.tell("filling in %d rows", r.N)
		if err := d.Fill(ctx, r); err != nil {
			return nil, err
		}
	}
	return d, d.Settle(ctx)
}

// onCopy does something with a copy of a database and drops it.
func (l *lab) onCopy(ctx context.Context, of *stage.Database, do func(d *stage.Database) error) (err error) {
	d, err := l.postgres.Copy(ctx, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Drop(context.WithoutCancel(ctx))) }()
	return do(d)
}
