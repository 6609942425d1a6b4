package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"example.com/whctl/internal/console"
)

// The looks of what is printed, on a terminal that has them.
const (
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	cyan   = "\x1b[36m"
	normal = "\x1b[0m"
)

// talk prints the story. The first error of writing sticks: a reader that has gone ends
// the story at its next step.
type talk struct {
	w     io.Writer
	color bool
	live  bool // a line may be written over
	err   error

	chapters int
	over     bool // the last line is a countdown, and may be written over
}

func newTalk(s *console.Streams, quiet bool) *talk {
	if quiet {
		return &talk{w: io.Discard}
	}
	t := &talk{w: s.Out, color: s.Color(console.Stdout)}
	term, _ := s.LookupEnv("TERM")
	t.live = s.OutTTY && term != "dumb"
	return t
}

func (t *talk) put(text string) {
	if t.err != nil {
		return
	}
	if t.over {
		t.over = false
		text = "\r\x1b[K" + text
	}
	_, t.err = io.WriteString(t.w, text)
}

func (t *talk) styled(style, text string) string {
	if !t.color {
		return text
	}
	return style + text + normal
}

// chapter begins a part of the story.
func (t *talk) chapter(title string) {
	t.chapters++
	t.put("\n" + t.styled(bold, fmt.Sprintf("%d. %s", t.chapters, title)) + "\n")
}

// say tells what is going on, in lines that fit 80 columns.
func (t *talk) say(format string, args ...any) {
	t.put(indented(fmt.Sprintf(format, args...), func(line string) string { return line }))
}

// prompt shows a command line as it would be typed.
func (t *talk) prompt(line string) {
	t.put("\n" + t.styled(green, "  $ ") + t.styled(bold, line) + "\n")
}

// more shows a command line right behind another one.
func (t *talk) more(line string) {
	t.put(t.styled(green, "  $ ") + t.styled(bold, line) + "\n")
}

// output shows what a program answered.
func (t *talk) output(text string) {
	if text != "" {
		t.put(indented(strings.TrimRight(text, "\n"), func(line string) string { return line }))
	}
}

// aside shows what the receiver saw.
func (t *talk) aside(format string, args ...any) {
	t.put(indented(fmt.Sprintf(format, args...), func(line string) string { return t.styled(cyan, line) }))
}

// verdict shows one account of the end.
func (t *talk) verdict(a audited) {
	if len(a.broken) == 0 {
		t.put("  " + t.styled(green, "ok") + "      " + a.claim + "\n")
		return
	}
	t.put("  " + t.styled(red, "FAILED") + "  " + a.claim + "\n")
	for _, b := range a.broken {
		t.put("          " + b + "\n")
	}
}

// countdown shows how long it is until something happens: in one line that is written
// over where that is possible, else once.
func (t *talk) countdown(what string, wait time.Duration, first bool) {
	if !first && !t.live {
		return
	}
	text := t.styled(faint, fmt.Sprintf("  … %s in %.1f s", what, max(wait, 0).Seconds()))
	if t.live {
		t.put(text)
		t.over = true
		return
	}
	t.put(text + "\n")
}

func indented(text string, style func(string) string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			b.WriteString("  " + style(line))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
