package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// What a program reads back is what was stored, whatever was escaped on the way.
func TestJSONKeepsStrings(t *testing.T) {
	rows := hostile()
	rows[1].Message = strings.TrimSuffix(rows[1].Message, "\xff") + "\u0085\u2028\u200f\U0001f468\u200d\U0001f469 </script>" // JSON has no invalid UTF-8
	for _, o := range []render.Options{{Format: "json"}, {Format: "json", Width: 80}, {Format: "jsonl"}} {
		out := show(t, o, rows)
		var got []letter
		if o.Format == "json" {
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%+v: %v in\n%s", o, err, out)
			}
		} else {
			dec := json.NewDecoder(strings.NewReader(out))
			for {
				var l letter
				if err := dec.Decode(&l); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				got = append(got, l)
			}
		}
		if !reflect.DeepEqual(got, rows) {
			t.Errorf("%+v: got %+v, want %+v", o, got, rows)
		}
		if !strings.HasSuffix(out, "\n") || strings.HasSuffix(out, "\n\n") {
			t.Errorf("%+v: want one newline at the end of %q", o, out)
		}
		if !strings.Contains(out, "</script>") || !strings.Contains(out, `"=HYPERLINK(\"https://x\")"`) {
			t.Errorf("%+v: strings were changed or escaped for HTML:\n%s", o, out)
		}
	}
}

func TestJSONWithoutFunction(t *testing.T) {
	var b bytes.Buffer
	if err := (render.View[letter]{}).Write(&b, render.Options{Format: "json"}, []letter{{ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	if want := `[{"delivery_id":"a","tenant":"","count":0,"message":"","worker":""}]` + "\n"; b.String() != want {
		t.Errorf("got %s want %s", b.String(), want)
	}
}

func TestJSONRawPayload(t *testing.T) {
	v := render.View[string]{JSON: func(s string) any { return map[string]any{"payload": json.RawMessage(s)} }}
	var b bytes.Buffer
	if err := v.Write(&b, render.Options{Format: "jsonl"}, []string{`{"b":1.50,"a":"<\u007f` + "\x7f" + `"}`}); err != nil {
		t.Fatal(err)
	}
	if want := `{"payload":{"b":1.50,"a":"<\u007f\u007f"}}` + "\n"; b.String() != want {
		t.Errorf("got %s want %s", b.String(), want)
	}
	if err := v.Write(&b, render.Options{Format: "json"}, []string{`{broken`}); err == nil {
		t.Error("a broken document was written")
	}
}

func TestJQ(t *testing.T) {
	rows := []letter{{ID: "a\x1b\nb", Count: 9007199254740993, Message: "x", Worker: "\x7f\u202e"}, {ID: "c", Message: "<&>"}}
	for _, c := range []struct {
		name string
		o    render.Options
		want string
	}{
		{"strings raw", render.Options{JQ: ".[].delivery_id"}, "a\x1b\nb\nc\n"},
		{"visible on a terminal", render.Options{JQ: ".[].delivery_id", Width: 80}, `a\x1b\nb` + "\nc\n"},
		{"large numbers", render.Options{JQ: ".[0].count", Format: "json"}, "9007199254740993\n"},
		{"other values as JSON", render.Options{JQ: ".[] | {m: .message}, null, [.count < 1]"}, "{\"m\":\"x\"}\nnull\n[false]\n{\"m\":\"<&>\"}\nnull\n[true]\n"},
		{"each object of jsonl", render.Options{JQ: ".message", Format: "jsonl"}, "x\n<&>\n"},
		{"JSON of hostile text", render.Options{JQ: ".[0].worker | [.]"}, `["\u007f\u202e"]` + "\n"},
		{"nothing", render.Options{JQ: "empty"}, ""},
		{"halt", render.Options{JQ: "1, halt, 2"}, "1\n"},
		{"no environment", render.Options{JQ: "env"}, "{}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SECRET", "x")
			if got := show(t, c.o, rows); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestJQErrors(t *testing.T) {
	for _, o := range []render.Options{{JQ: ".["}, {JQ: "nosuch\x1b"}, {JQ: "nosuch(1)"}, {JQ: ".", Format: "table"}, {JQ: ".", Format: "csv"}} {
		err := o.Validate()
		if !errors.Is(err, work.ErrUsage) || !strings.Contains(err.Error(), "--jq") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%+v: err = %q, want work.ErrUsage that names --jq", o, err)
		}
	}
	var b bytes.Buffer
	err := letters().Write(&b, render.Options{JQ: "1, (.[0].tenant | .x)"}, []letter{{Tenant: "\x1b\u202e"}})
	if err == nil || errors.Is(err, work.ErrUsage) || strings.ContainsAny(err.Error(), "\x1b\u202e") {
		t.Errorf("err = %q, want one that is no usage error, and visible", err)
	}
	if b.String() != "1\n" {
		t.Errorf("wrote %q, want what came before the error", b.String())
	}
}
