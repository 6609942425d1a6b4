package console_test

import (
	"errors"
	"io"
	"os"
	"testing"

	"example.com/whctl/internal/console"
)

// env gives a LookupEnv of pairs.
func env(pairs map[string]string) func(string) (string, bool) {
	return func(key string) (string, bool) { v, ok := pairs[key]; return v, ok }
}

func TestColor(t *testing.T) {
	for _, c := range []struct {
		name     string
		out, err bool // terminals
		env      map[string]string
		wantOut  bool
		wantErr  bool
	}{
		{"no terminal", false, false, nil, false, false},
		{"terminals", true, true, nil, true, true},
		{"only stderr", false, true, nil, false, true},
		{"only stdout", true, false, nil, true, false},
		{"NO_COLOR", true, true, map[string]string{"NO_COLOR": "1"}, false, false},
		{"empty NO_COLOR", true, true, map[string]string{"NO_COLOR": ""}, true, true},
		{"CLICOLOR_FORCE", false, false, map[string]string{"CLICOLOR_FORCE": "1"}, true, true},
		{"CLICOLOR_FORCE=0", false, true, map[string]string{"CLICOLOR_FORCE": "0"}, false, true},
		{"NO_COLOR wins", true, true, map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "x"}, false, false},
		{"dumb", true, true, map[string]string{"TERM": "dumb"}, false, false},
		{"forced dumb", true, true, map[string]string{"TERM": "dumb", "CLICOLOR_FORCE": "1"}, true, true},
		{"xterm", true, true, map[string]string{"TERM": "xterm-256color"}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, _, _ := console.Test()
			s.OutTTY, s.ErrTTY, s.LookupEnv = c.out, c.err, env(c.env)
			if out, err := s.Color(console.Stdout), s.Color(console.Stderr); out != c.wantOut || err != c.wantErr {
				t.Errorf("colour of stdout %v, stderr %v; want %v, %v", out, err, c.wantOut, c.wantErr)
			}
		})
	}
}

func TestWidth(t *testing.T) {
	s, _, _, _ := console.Test()
	s.LookupEnv = env(map[string]string{"COLUMNS": "132"})
	if got := s.Width(); got != 0 {
		t.Errorf("no terminal: width %d, want 0", got)
	}
	s.OutTTY = true
	if got := s.Width(); got != 132 {
		t.Errorf("COLUMNS=132: width %d", got)
	}
	for _, wrong := range []string{"", "x", "0", "-3"} {
		s.LookupEnv = env(map[string]string{"COLUMNS": wrong})
		if got := s.Width(); got != 80 {
			t.Errorf("COLUMNS=%q: width %d, want 80", wrong, got)
		}
	}
	s.LookupEnv = nil
	if got := s.Width(); got != 80 {
		t.Errorf("no environment: width %d, want 80", got)
	}
}

func TestSystem(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	in, out, stderr := os.Stdin, os.Stdout, os.Stderr
	defer func() { os.Stdin, os.Stdout, os.Stderr = in, out, stderr }()
	os.Stdin, os.Stdout, os.Stderr = null, null, null // a character device, yet no terminal
	t.Setenv("WHCTL_TEST", "seen")
	s := console.System()
	if s.In != io.Reader(null) || s.Out != io.Writer(console.Outlet{File: null}) || s.Err != io.Writer(null) || s.InTTY || s.OutTTY || s.ErrTTY {
		t.Errorf("got %v %v %v, terminals %v %v %v", s.In, s.Out, s.Err, s.InTTY, s.OutTTY, s.ErrTTY)
	}
	if v, ok := s.LookupEnv("WHCTL_TEST"); !ok || v != "seen" {
		t.Errorf("environment: %q, %v", v, ok)
	}
}

// EPIPE of stdout has a name of its own: the link to the database may break the same way.
func TestTheReaderOfStdoutGoes(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if _, err := (console.Outlet{File: w}).Write([]byte("x")); !errors.Is(err, console.ErrReaderGone) {
		t.Errorf("error %v, want ErrReaderGone", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (console.Outlet{File: w}).Write([]byte("x")); err == nil || errors.Is(err, console.ErrReaderGone) {
		t.Errorf("error %v, want one that is not ErrReaderGone", err)
	}
}
