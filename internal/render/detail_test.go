package render_test

import (
	"bytes"
	"testing"

	"example.com/whctl/internal/render"
)

func TestDetail(t *testing.T) {
	var b bytes.Buffer
	o := render.Options{Width: 20}
	for _, err := range []error{
		render.Fields(&b, o, []render.Field{
			{"Delivery", "019ab3c4-0000-7000-8000-000000000001"}, {"Last message", "\x1b[2J\r\nOK delivered and more than fits"}, {"Not after", ""},
		}),
		render.Title(&b, o, "Attempts\x1b"),
		render.Block(&b, "{\n  \"a\": \"\x1b[2J\",\r\n\n}"),
		render.Fields(&b, o, nil),
		render.Title(&b, render.Options{Color: true}, "Bold"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `Delivery:      019ab3c4-0000-7000-8000-000000000001
Last message:  \x1b[2J\r\nOK delivered and more than fits
Not after:     -

Attempts\x1b
  {
    "a": "\x1b[2J",\r

  }
` + "\n\x1b[1mBold\x1b[0m\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}
