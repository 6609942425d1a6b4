package console

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// LogFormats and LogLevels list what --log-format and --log-level take.
func LogFormats() []string { return []string{"text", "json"} }

// LogLevels lists the levels, the most talkative first.
func LogLevels() []string { return []string{"debug", "info", "warn", "error"} }

// Logger gives a logger that writes to Err: format text or json, "" for text on a
// terminal and json else; level debug, info, warn or error, "" for info. Another
// word is work.ErrUsage. Times are RFC 3339 in UTC. Whatever is logged, an event is
// one line: control characters in the message and in values become visible marks.
func (s *Streams) Logger(format, level string) (*slog.Logger, error) {
	least, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	if format == "" {
		format = "json"
		if s.ErrTTY {
			format = "text"
		}
	}
	w := logWriter{s}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: visible(jsonValue)})), nil
	case "text":
		return slog.New(s.textHandler(w, least)), nil
	}
	return nil, fmt.Errorf("%w: unknown log format \"%s\": want one of %s", work.ErrUsage, render.Visible(format), strings.Join(LogFormats(), ", "))
}

func (s *Streams) textHandler(w io.Writer, least slog.Level) slog.Handler {
	if s.ErrTTY {
		return tint.NewTextHandler(w, &tint.Options{Level: least, ReplaceAttr: keepMarks(visible(textValue)), NoColor: !s.Color(Stderr)})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: visible(textValue)})
}

func parseLevel(name string) (slog.Level, error) {
	switch name {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%w: unknown log level \"%s\": want one of %s", work.ErrUsage, render.Visible(name), strings.Join(LogLevels(), ", "))
}

// logWriter writes each event, which a handler hands over in one call, as a whole.
type logWriter struct{ s *Streams }

func (w logWriter) Write(p []byte) (int, error) { return w.s.talk(p) }

// visible makes a ReplaceAttr that cleans every key and value, the message among
// them. Values of no kind of slog's own go through other.
func visible(other func(any) slog.Value) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		a.Key = render.Visible(a.Key)
		switch a.Value.Kind() {
		case slog.KindString:
			a.Value = slog.StringValue(render.Visible(a.Value.String()))
		case slog.KindTime:
			a.Value = slog.StringValue(render.Time(a.Value.Time()))
		case slog.KindDuration:
			a.Value = other(a.Value.Duration())
		case slog.KindAny:
			if _, ok := a.Value.Any().(slog.Level); !ok {
				a.Value = other(a.Value.Any())
			}
		}
		return a
	}
}

// keepMarks keeps the mark of an escape a mark: tint, when it colours, turns the four
// characters \x1b in a quoted key or value into the real escape, be they a mark or
// what a receiver wrote. The mark \u001b it leaves alone.
func keepMarks(clean func([]string, slog.Attr) slog.Attr) func([]string, slog.Attr) slog.Attr {
	return func(groups []string, a slog.Attr) slog.Attr {
		a = clean(groups, a)
		a.Key = strings.ReplaceAll(a.Key, `\x1b`, `\u001b`)
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(strings.ReplaceAll(a.Value.String(), `\x1b`, `\u001b`))
		}
		return a
	}
}

// textValue turns v into text. fmt survives an Error or String method that panics.
func textValue(v any) slog.Value {
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	return slog.StringValue(render.Visible(fmt.Sprintf("%+v", v)))
}

// jsonValue keeps the JSON form of lists and objects where it holds nothing to be
// hidden from, shows durations in seconds, and everything else as text.
func jsonValue(v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case time.Duration:
		return slog.Float64Value(render.Seconds(v))
	case error, fmt.Stringer, []byte:
		return slog.StringValue(render.Visible(fmt.Sprintf("%s", v)))
	}
	b, err := json.Marshal(v)
	if err != nil || render.Visible(string(b)) != string(b) {
		return textValue(v)
	}
	return slog.AnyValue(json.RawMessage(b))
}
