package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/work"
)

// The exit codes. 2 is never whctl's own: a Go panic ends with it.
const (
	exitOK          = 0
	exitFailed      = 1
	exitRefused     = 3
	exitNotFound    = 4
	exitMore        = 10
	exitUsage       = 64
	exitUnreachable = 69
	exitBusy        = 75
	exitGrant       = 77
	exitConfig      = 78
	exitHungUp      = 129
	exitInterrupted = 130
	exitQuit        = 131
	exitTerminated  = 143
)

// Exit is an exit code and what it means.
type Exit struct {
	Code      int
	Meaning   string
	Scheduler string // what a scheduler should do
}

// Exits is the table of exit codes.
func Exits() []Exit { return slices.Clone(exits[:]) }

// exits is the one table of exit codes: code, help, README and man pages use it.
var exits = [...]Exit{
	{exitOK, "the command did what it was asked; nothing to do, and stopped at its own limit, are 0 too", "nothing"},
	{exitFailed, "it failed in a way that no other code names", "retry at the next tick"},
	{exitRefused, "refused by a guard, or a threshold is breached (--fail-on, sweep verify, a sweep above its cap or never previewed)", "alert"},
	{exitNotFound, "nothing matched an explicit id", "-"},
	{exitMore, "with --detailed-exitcode: it stopped at its own limit with work left", "nothing"},
	{exitUsage, "usage: an unknown command or flag, or a bad value; nothing was touched", "alert, do not retry"},
	{exitUnreachable, "the database is unreachable, refuses the log-in, is read-only, or was lost", "retry at the next tick"},
	{exitBusy, "another run is at it, and --no-overlap was given", "nothing"},
	{exitGrant, "the database role lacks a grant; it is named", "alert"},
	{exitConfig, "configuration error, or the schema is missing, older or newer than this binary knows", "alert, do not retry"},
	{exitHungUp, "stopped by SIGHUP, after recording what was in flight; a second signal does not wait for that", "-"},
	{exitInterrupted, "stopped by SIGINT, after recording what was in flight; a second signal does not wait for that", "-"},
	{exitQuit, "stopped by SIGQUIT, after recording what was in flight; a second signal does not wait for that", "-"},
	{exitTerminated, "stopped by SIGTERM, after recording what was in flight; a second signal does not wait for that", "-"},
}

// exitError is an error with an exit code of its own. Without a cause nothing is
// printed: what there was to say has been said.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// silent ends with a code and prints nothing more.
func silent(code int) error { return &exitError{code: code} }

// signalled is the cause of a context that a signal ended.
type signalled struct{ signal os.Signal }

func (s signalled) Error() string { return "stopped by " + s.signal.String() }

// exitCode is the one switch from an error to an exit code.
func exitCode(err error) int {
	var own *exitError
	var sig signalled
	switch {
	case err == nil, errors.Is(err, console.ErrReaderGone):
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &sig):
		return signalCode(sig.signal)
	case errors.Is(err, work.ErrUsage):
		return exitUsage
	case errors.Is(err, work.ErrConfig), errors.Is(err, work.ErrSchema):
		return exitConfig
	case errors.Is(err, work.ErrGrant):
		return exitGrant
	case errors.Is(err, work.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, work.ErrBusy):
		return exitBusy
	case errors.Is(err, work.ErrRefused):
		return exitRefused
	case errors.Is(err, work.ErrNotFound):
		return exitNotFound
	}
	return exitFailed
}

func signalCode(s os.Signal) int {
	switch s {
	case syscall.SIGTERM:
		return exitTerminated
	case syscall.SIGHUP:
		return exitHungUp
	case syscall.SIGQUIT:
		return exitQuit
	}
	return exitInterrupted
}

// signalFirst makes a command that a signal broke off end as stopped by it, whatever its
// parts made of being cancelled.
func signalFirst(ctx context.Context, err error) error {
	var sig signalled
	if err == nil || !errors.As(context.Cause(ctx), &sig) {
		return err
	}
	var own *exitError
	if errors.As(err, &own) && own.cause == nil {
		return err
	}
	if errors.Is(err, work.ErrUnknown) { // what it leaves behind has to be said
		return fmt.Errorf("%w: %w", sig, err)
	}
	return sig
}

// usage is an error of what was asked for.
func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", work.ErrUsage, fmt.Sprintf(format, args...))
}

// message is err in one paragraph for people, without the sentinel's words where they
// add nothing.
func message(ctx context.Context, err error) string {
	var sig signalled
	if errors.As(context.Cause(ctx), &sig) && errors.Is(err, context.Canceled) {
		return sig.Error()
	}
	return bare(err, work.ErrUsage)
}

// bare is err's text without the words of the sentinel that it begins with.
func bare(err, sentinel error) string { return strings.TrimPrefix(err.Error(), sentinel.Error()+": ") }
