package console_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/work"
)

func TestConfirm(t *testing.T) {
	for typed, want := range map[string]bool{
		"y\n": true, "yes\n": true, "YES\r\n": true, " y \n": true,
		"\n": false, "n\n": false, "yep\n": false, "yes please\n": false, "": false, "y": false, "\ny\n": false,
	} {
		s, in, out, stderr := console.Test()
		s.InTTY, s.ErrTTY = true, true
		in.WriteString(typed)
		got, err := s.Confirm("Release 812 dead letters of \x1b[2Jcarrier-b?")
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", typed, got, err, want)
		}
		if !strings.HasPrefix(stderr.String(), `Release 812 dead letters of \x1b[2Jcarrier-b? [y/N] `) || out.Len() > 0 {
			t.Errorf("asked %q on stderr, %q on stdout", stderr, out)
		}
	}
}

func TestConfirmLeavesTheNextLine(t *testing.T) {
	s, in, _, _ := console.Test()
	s.InTTY, s.ErrTTY = true, true
	in.WriteString("y\nn\nrest")
	first, _ := s.Confirm("one?")
	second, _ := s.Confirm("two?")
	if !first || second || in.String() != "rest" {
		t.Errorf("got %v, %v and left %q, want true, false and the rest", first, second, in)
	}
}

func TestConfirmNeedsATerminal(t *testing.T) {
	for _, c := range []struct{ in, err bool }{{false, false}, {true, false}, {false, true}} {
		s, in, _, stderr := console.Test()
		s.InTTY, s.OutTTY, s.ErrTTY = c.in, true, c.err
		in.WriteString("y\n")
		got, err := s.Confirm("Release?")
		if got || !errors.Is(err, work.ErrUsage) || !strings.Contains(err.Error(), "--yes") {
			t.Errorf("%+v: %v, %v, want work.ErrUsage that names --yes", c, got, err)
		}
		if stderr.Len() > 0 || in.Len() != 2 {
			t.Errorf("%+v: asked %q and read, want neither", c, stderr)
		}
	}
}

func TestConfirmReadError(t *testing.T) {
	s, _, _, _ := console.Test()
	s.InTTY, s.ErrTTY = true, true
	broken := errors.New("broken")
	s.In = iotest.ErrReader(broken)
	if got, err := s.Confirm("Release?"); got || !errors.Is(err, broken) {
		t.Errorf("%v, %v, want the error", got, err)
	}
}
