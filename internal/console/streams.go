package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"example.com/whctl/internal/render"
)

// Streams are the standard streams of a command and what is known about them.
type Streams struct {
	In                    io.Reader
	Out                   io.Writer // results
	Err                   io.Writer // logs, progress, prompts
	InTTY, OutTTY, ErrTTY bool
	LookupEnv             func(string) (string, bool)

	mu    sync.Mutex // guards what follows, and writes to Err by loggers, progress and prompts
	drawn bool       // a progress bar stands on the last line of Err
}

// Stream names one of the streams that are written to.
type Stream int

// The streams.
const (
	Stdout Stream = iota
	Stderr
)

// defaultWidth is used for a terminal that does not tell its width.
const defaultWidth = 80

// System gives the streams of the process.
func System() *Streams {
	return &Streams{
		In: os.Stdin, Out: Outlet{os.Stdout}, Err: os.Stderr,
		InTTY: terminal(os.Stdin), OutTTY: terminal(os.Stdout), ErrTTY: terminal(os.Stderr),
		LookupEnv: os.LookupEnv,
	}
}

func terminal(f *os.File) bool {
	return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())
}

// Test gives streams in memory, none of them a terminal, with an empty environment,
// and the buffers behind them.
func Test() (s *Streams, in, out, err *bytes.Buffer) {
	in, out, err = &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}
	return &Streams{In: in, Out: out, Err: err, LookupEnv: func(string) (string, bool) { return "", false }}, in, out, err
}

// Color tells whether w may be coloured. NO_COLOR refuses, CLICOLOR_FORCE demands
// even where there is no terminal, and TERM=dumb refuses on one.
func (s *Streams) Color(w Stream) bool {
	if s.env("NO_COLOR") != "" {
		return false
	}
	if force := s.env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	tty := s.OutTTY
	if w == Stderr {
		tty = s.ErrTTY
	}
	return tty && !s.dumb()
}

// Width is the number of columns results may take: $COLUMNS, or what the terminal
// says. 0 means that stdout is no terminal, and nothing is to be cut.
func (s *Streams) Width() int {
	if !s.OutTTY {
		return 0
	}
	return s.width(s.Out)
}

func (s *Streams) width(w io.Writer) int {
	if n, err := strconv.Atoi(s.env("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return defaultWidth
}

func (s *Streams) env(key string) string {
	if s.LookupEnv == nil {
		return ""
	}
	value, _ := s.LookupEnv(key)
	return value
}

func (s *Streams) dumb() bool { return s.env("TERM") == "dumb" }

// Say writes one line to Err, made visible, and never into a progress bar.
func (s *Streams) Say(text string) {
	_, _ = s.talk([]byte(render.Visible(text) + "\n")) // with Err gone there is nobody to tell
}

// talk writes to Err as a whole, after wiping a progress bar off the line.
func (s *Streams) talk(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.wipe(); err != nil {
		return 0, err
	}
	return s.Err.Write(p)
}

// wipe clears the line that a progress bar stands on. s.mu is held.
func (s *Streams) wipe() error {
	if !s.drawn {
		return nil
	}
	s.drawn = false
	_, err := io.WriteString(s.Err, "\r\x1b[2K")
	return err
}

// ErrReaderGone says that the reader of stdout went away, as `head` does once it has
// seen enough. It is an error of its own, since EPIPE may as well come from the link to
// the database.
var ErrReaderGone = errors.New("the reader of the output has gone")

// Outlet is a file whose broken pipe is ErrReaderGone.
type Outlet struct{ *os.File }

// Write writes as the file does.
func (o Outlet) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = fmt.Errorf("%w: %w", ErrReaderGone, err)
	}
	return n, err
}
