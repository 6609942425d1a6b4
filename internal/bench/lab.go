package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

type options struct {
	whctl  string
	rounds int
	quick  bool
	only   *regexp.Regexp
}

type measurement struct {
	name string
	long bool // not made by -quick
	make func(l *lab, ctx context.Context) error
}

// measures are all there are, in the order in which they are made.
func measures() []measurement {
	return []measurement{
		{"deliver", false, (*lab).deliver},
		{"slow", false, (*lab).slow},
		{"workers", false, (*lab).workers},
		{"cron", false, (*lab).cron},
		{"memory", false, (*lab).memory},
		{"enqueue", false, (*lab).enqueue},
		{"latency", false, (*lab).latency},
		{"fair", false, (*lab).fair},
		{"sweep", false, (*lab).sweep},
		{"beside-sweep", false, (*lab).sweepBeside},
		{"preview", false, (*lab).preview},
		{"dead-tuples", false, (*lab).deadTuples},
		{"old-snapshot", false, (*lab).oldSnapshot},
		{"history-1m", true, (*lab).history1M},
		{"history-10m", true, (*lab).history10M},
	}
}

func names() string {
	var all []string
	for _, m := range measures() {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

// lab is what all measures share.
type lab struct {
	options
	self     string // this program, for the parts that it plays in other processes
	dir      string
	program  *stage.Whctl
	postgres *stage.Postgres
	receiver *stage.Receiver
	table    gauge.Table
}

// measure sets the stage, makes the measures and prints what came out, also after a
// failure.
func measure(ctx context.Context, o options) (err error) {
	l := &lab{options: o}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "whctl-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.program, err = stage.NewWhctl(o.whctl, l.dir); err != nil {
		return err
	}
	if l.postgres, err = stage.StartPostgres(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.postgres.Stop()) }()
	if l.receiver, err = stage.StartReceiver(exec.CommandContext(context.WithoutCancel(ctx), l.self, "play", "receiver")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.receiver.Stop()) }()
	if err := l.printPlace(ctx, os.Stdout); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.table.Print(os.Stdout)) }()
	for _, m := range measures() {
		if o.quick && m.long || !o.only.MatchString(m.name) {
			continue
		}
		if err := m.make(l, ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if err := l.postgres.Clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scale is how many rows a measure uses.
func (l *lab) scale(full, quick int) int {
	if l.quick {
		return quick
	}
	return full
}

func (l *lab) watch() gauge.Watch {
	return gauge.Watch{Postgres: l.postgres.PID(), Receiver: l.receiver.PID()}
}

// tell says how far it is, on stderr.
func (l *lab) tell(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// note adds a run to the table and tells of it.
func (l *lab) note(name string, r gauge.Run) {
	l.table.AddRun(name, r)
	l.tell("%s: %.0f in %.2fs, %.0f/s, %.2f cores busy with other things", name, r.Units, r.Wall.Seconds(), r.PerSecond(), r.Other)
}
