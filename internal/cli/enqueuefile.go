package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/enqueue"
	"example.com/whctl/internal/render"
)

// problemsShown is how many lines of each kind are named; the rest is counted.
const problemsShown = 20

// enqueueMemory is how many bytes a file that is read in chunks may take before the
// collector has to hurry.
const enqueueMemory = 80 << 20

// eventFile is what lines are read from.
type eventFile struct {
	io.ReadCloser
	name string
	size int64 // bytes; 0 where it is not known
}

func (a *app) openEvents(name string) (eventFile, error) {
	if name == "-" {
		return eventFile{ReadCloser: io.NopCloser(a.io.In), name: "standard input"}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return eventFile{}, usage("--file: %v", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a folder")
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return eventFile{}, usage("--file %s: %v", name, err)
	}
	e := eventFile{ReadCloser: f, name: name}
	if info.Mode().IsRegular() {
		e.size = info.Size()
	}
	return e, nil
}

func runEnqueueFile(ctx context.Context, a *app, o enqueueOptions) error {
	format, err := a.summaryFormat()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	events, err := a.openEvents(o.file)
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }() // it was only read
	a.tuneCollector(enqueueMemory)
	store, err := a.openStore(ctx, c, storeNeeds{conns: enqueueConns})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()

	progress, report := a.enqueueProgress(events), &problemReport{app: a, name: events.name}
	uc := a.enqueueCase(c)
	uc.Strict, uc.Problem, uc.Progress = o.strict, report.problem, progress.add
	sum, err := enqueue.Lines(ctx, store, events, uc)
	progress.Done()
	report.rest()
	if fine := err == nil && sum.Clean(); !fine || !a.global.quiet {
		if printed := render.One(a.io.Out, format, enqueuedView(), sum); err == nil {
			err = printed
		}
	}
	var sig signalled
	switch {
	case errors.As(err, &sig): // how far it came is what whoever sent it wants to know
		a.warn("%s: %v", events.name, err)
		return silent(signalCode(sig.signal))
	case err != nil:
		return fmt.Errorf("%s: %w", events.name, err)
	case !sum.Clean() && o.strict:
		return fmt.Errorf("%s: nothing was kept (--strict): %d lines conflict, %d were rejected", events.name, sum.Conflicts, sum.Rejected)
	case !sum.Clean():
		return silent(exitFailed)
	}
	return nil
}

// summaryFormat refuses formats that a summary does not have.
func (a *app) summaryFormat() (render.Options, error) {
	o, err := a.renderOptions()
	if err == nil && o.Format == render.Name {
		err = usage("-o name: a summary has no ids")
	}
	return o, err
}

// problemReport names lines that were not taken.
type problemReport struct {
	app   *app
	name  string
	shown [2]int64 // by conflict or not
	total [2]int64
}

func (r *problemReport) problem(p enqueue.Problem) {
	kind, word := 0, "rejected"
	if p.Kind == enqueue.Conflicts {
		kind, word = 1, "conflict"
	}
	r.total[kind]++
	if r.shown[kind] == problemsShown {
		return
	}
	r.shown[kind]++
	r.app.warn("%s:%d: %s: %s", r.name, p.Line, word, p.Reason)
}

// rest counts what was not named.
func (r *problemReport) rest() {
	for kind, word := range []string{"were rejected", "conflict"} {
		if more := r.total[kind] - r.shown[kind]; more > 0 {
			r.app.warn("%s: %d more lines %s", r.name, more, word)
		}
	}
}

// enqueueProgress counts bytes where it is known how many there are, else lines.
type enqueueProgress struct {
	*console.Progress
	bytes bool
}

func (a *app) enqueueProgress(e eventFile) enqueueProgress {
	if e.size > 0 {
		return enqueueProgress{a.io.Progress("enqueue (bytes)", e.size), true}
	}
	return enqueueProgress{a.io.Progress("enqueue (lines)", 0), false}
}

func (p enqueueProgress) add(lines, bytes int64) {
	if p.bytes {
		lines = bytes
	}
	p.Add(lines)
}
