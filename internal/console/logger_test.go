package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"example.com/whctl/internal/console"
	"example.com/whctl/internal/work"
)

// forged is what a receiver answers to write lines of its own into the log.
const forged = `\x1b[2J` + "500 boom\r\nlevel=error msg=\"sweep deleted 9999 rows\"\n{\"level\":\"ERROR\"}\x1b[2J\u202e\u009b\x00\x7f"

type valuer struct{}

func (valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", forged)) }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text } // panics on nil

// talk logs n events that hold the forged text in every place a value can stand.
func talk(l *slog.Logger) (n int) {
	l.Info(forged)
	l.Info("answer", "message", forged, forged, "key")
	l.Error("failed", "err", errors.New(forged), "bytes", []byte(forged), "any", map[string]string{"a": forged}, "list", []string{forged})
	l.Warn("group", slog.Group("g", slog.String("a", forged)), "valuer", valuer{})
	l.With("bound", forged).WithGroup("g").Info("bound", "x", forged)
	l.Info("nil", "err", (*nilError)(nil), "nothing", nil, "addr", netip.MustParseAddr("127.0.0.1"))
	return 6
}

func logger(t *testing.T, tty bool, format string, environ map[string]string) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	s, _, out, stderr := console.Test()
	s.ErrTTY, s.LookupEnv = tty, env(environ)
	l, err := s.Logger(format, "info")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out.Len() > 0 {
			t.Errorf("logs on stdout: %q", out)
		}
	})
	return l, stderr
}

// A receiver that writes log lines: one event is one line, no line begins with the
// forged text, and no byte drives the terminal.
func TestForgedLines(t *testing.T) {
	for _, c := range []struct {
		name, format string
		tty          bool
		env          map[string]string
		begin        string
	}{
		{"text", "text", false, nil, `^time=\d{4}-`},
		{"json", "json", false, nil, `^\{"time":"\d{4}-`},
		{"terminal", "text", true, map[string]string{"NO_COLOR": "1"}, `^\d{4}-\d\d-\d\dT[0-9:.]+Z (INF|WRN|ERR) `},
		{"coloured terminal", "text", true, nil, `^\x1b\[2m\d{4}-`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, stderr := logger(t, c.tty, c.format, c.env)
			n := talk(l)
			text := stderr.String()
			if c.env == nil && c.tty {
				text = regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(text, "") // our own colours
				c.begin = `^\d{4}-`
			}
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if len(lines) != n {
				t.Errorf("%d lines for %d events:\n%s", len(lines), n, text)
			}
			for _, line := range lines {
				if !regexp.MustCompile(c.begin).MatchString(line) {
					t.Errorf("line begins wrong: %q", line)
				}
				for _, r := range line {
					if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
						t.Errorf("%U in %q", r, line)
					}
				}
				if c.format == "json" && !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %s", line)
				}
			}
			if !strings.Contains(lines[0], `[2J500 boom\`) || strings.Count(text, "sweep deleted 9999 rows") < 11 {
				t.Errorf("the text is not shown:\n%s", text)
			}
			if coloured := strings.Contains(stderr.String(), "\x1b["); coloured != (c.name == "coloured terminal") {
				t.Errorf("coloured = %v:\n%q", coloured, stderr)
			}
			if strings.Contains(text, "PANIC") {
				t.Errorf("a nil error panicked:\n%s", text)
			}
		})
	}
}

func TestLogFormats(t *testing.T) {
	for _, c := range []struct {
		name, format string
		tty          bool
		env          map[string]string
		want         string // of the line, after the time
	}{
		{"json without a terminal", "", false, nil, `"level":"INFO","msg":"claimed","n":3,"took":1.5,"tenant":"a b","due":"2026-03-01T01:04:05.000000Z","by":{"ok":1}}`},
		{"text on a terminal", "", true, map[string]string{"NO_COLOR": "1"}, `INF claimed n=3 took=1.5s tenant="a b" due=2026-03-01T01:04:05.000000Z by=map[ok:1]`},
		{"json on a terminal", "json", true, nil, `"level":"INFO","msg":"claimed","n":3,"took":1.5,"tenant":"a b","due":"2026-03-01T01:04:05.000000Z","by":{"ok":1}}`},
		{"text without a terminal", "text", false, nil, `level=INFO msg=claimed n=3 took=1.5s tenant="a b" due=2026-03-01T01:04:05.000000Z by=map[ok:1]`},
		{"no colour in a pipe even if forced", "text", false, map[string]string{"CLICOLOR_FORCE": "1"}, `level=INFO msg=claimed n=3 took=1.5s tenant="a b" due=2026-03-01T01:04:05.000000Z by=map[ok:1]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, stderr := logger(t, c.tty, c.format, c.env)
			l.Info("claimed", "n", 3, "took", 1500*time.Millisecond, "tenant", "a b",
				"due", time.Date(2026, 3, 1, 2, 4, 5, 0, time.FixedZone("", 3600)), "by", map[string]int{"ok": 1})
			head := regexp.MustCompile(`^(\{"time":"|time=)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z("?,| )`)
			at := head.FindStringIndex(stderr.String())
			if at == nil {
				t.Fatalf("no time in RFC 3339 UTC with six digits: %q", stderr)
			}
			if got := stderr.String()[at[1]:]; got != c.want+"\n" {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestLogTimeIsUTC(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		l, stderr := logger(t, false, format, nil)
		r := slog.NewRecord(time.Date(2026, 3, 1, 2, 4, 5, 0, time.FixedZone("CET", 3600)), slog.LevelInfo, "x", 0)
		if err := l.Handler().Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(stderr.String(), "2026-03-01T01:04:05.000000Z") {
			t.Errorf("%s: %q", format, stderr)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "": 3, "warn": 2, "error": 1} {
		s, _, _, stderr := console.Test()
		l, err := s.Logger("json", level)
		if err != nil {
			t.Fatal(err)
		}
		l.Debug("d")
		l.Info("i")
		l.Warn("w")
		l.Error("e")
		if got := strings.Count(stderr.String(), "\n"); got != want {
			t.Errorf("level %q: %d lines, want %d", level, got, want)
		}
	}
	s, _, _, _ := console.Test()
	for _, wrong := range [][2]string{{"json", "INFO"}, {"json", "trace"}, {"logfmt", "info"}, {"\x1b", "info"}, {"json", "\x1b"}} {
		l, err := s.Logger(wrong[0], wrong[1])
		if l != nil || !errors.Is(err, work.ErrUsage) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v, %v, want work.ErrUsage", wrong, l, err)
		}
	}
}
