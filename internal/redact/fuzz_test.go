package redact_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"example.com/whctl/internal/redact"
)

// FuzzRedact holds every result against what a library selects: what it selects is gone,
// nothing else is, the bytes between are the text's own, and the text cut anywhere does
// not show the beginning of what is selected.
func FuzzRedact(f *testing.F) {
	for _, s := range [][2]string{
		{`$..email`, `{"email":"a","l":[{"email":{"email":1}},["email"]]}`},
		{`$.student.*`, `{"student":{"name":"Jane","n":[1,{"x":null}]},"student":2}`},
		{`$[-1]`, `[1,[2,3],{"a":-1.5e-3}]`},
		{`$..[1:5:2]`, `[0,1,[true,false,null],3,4]`},
		{`$.a`, `Error: {"a":1,"b":{"a":2},}`},
		{`$..a`, "data: {\"a\":[1]}\n\ndata: {\"a\""},
		{`$['\u0065',"x\ud83d\ude00"]`, "\uFEFF{\"\\u0065\":1,\"x\U0001F600\":[]} "},
		{`$`, `"jane`},
		{`$..*..a`, `{"a":{"a":{"b":["\u00`},
		{`$.a`, "{\"\xff\":\"\xfe\",\"a\":\"\xc3"},
	} {
		f.Add(s[0], []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, text string, doc []byte) {
		if len(text) > 100 || len(doc) > 1000 || strings.Count(text, "..") > 3 {
			return // what the library takes for it grows with a power of it
		}
		rule, err := redact.Parse(text)
		if err != nil {
			return
		}
		shown, cut := redact.Rules{rule}.Apply(doc)
		if len(shown) > len(`"`+redact.Mark+`"`)*max(len(doc), 1) {
			t.Fatalf("%d bytes of %d", len(shown), len(doc))
		}
		wantPieces(t, shown, doc)
		switch {
		case json.Valid(doc):
			if cut {
				t.Fatalf("%q is JSON, and became %q", doc, shown)
			}
			wantSelected(t, text, doc, shown)
			wantCutsToHide(t, rule, doc)
		case !bytes.ContainsAny(doc, "{[\"\x00\xff\xfe") && !bytes.Equal(shown, doc):
			t.Fatalf("%q became %q", doc, shown)
		}
	})
}

// wantPieces wants what stands between the marks to stand in doc, in that order.
func wantPieces(t *testing.T, shown, doc []byte) {
	t.Helper()
	pieces := bytes.Split(bytes.ReplaceAll(shown, []byte(`"`+redact.Mark+`"`), []byte(redact.Mark)), []byte(redact.Mark))
	if !bytes.HasPrefix(doc, pieces[0]) {
		t.Fatalf("%q does not begin as %q", shown, doc)
	}
	for rest := doc; len(pieces) > 0; pieces = pieces[1:] {
		at := bytes.Index(rest, pieces[0])
		if at < 0 {
			t.Fatalf("%q of %q is not in %q", pieces[0], shown, doc)
		}
		rest = rest[at+len(pieces[0]):]
	}
}

// wantSelected wants shown to be doc with exactly the selected values replaced.
func wantSelected(t *testing.T, rule string, doc, shown []byte) {
	t.Helper()
	want := decode(t, doc)
	nodes := jsonpath.MustParse(rule).SelectLocated(want)
	for _, n := range nodes {
		want = replaced(want, n.Path, redact.Mark)
	}
	if got := decode(t, shown); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s of %q: %q", rule, doc, shown)
	}
}

// wantCutsToHide puts a sign that stands nowhere else into all that is selected.
func wantCutsToHide(t *testing.T, rule redact.Rule, doc []byte) {
	t.Helper()
	const sign = "\u2620"
	v := decode(t, doc)
	if text, err := json.Marshal(v); err != nil || bytes.IndexByte(text, sign[0]) >= 0 {
		return
	}
	for _, n := range jsonpath.MustParse(rule.String()).SelectLocated(v) {
		v = replaced(v, n.Path, strings.Repeat(sign, 3))
	}
	signed, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(signed) * 3 {
		before, behind := "", ""
		switch n % 3 {
		case 1:
			before = "Error 422: "
		case 2:
			behind = "\x01"
		}
		n /= 3
		// Also behind something else, and where that is no JSON any more.
		text := append([]byte(before), signed[:n]...)
		shown, _ := redact.Rules{rule}.Apply(append(text, behind...))
		if bytes.IndexByte(shown, sign[0]) >= 0 {
			t.Fatalf("%s of %q shows %q", rule, signed[:n], shown)
		}
	}
}

// replaced is v with another value at path, unless the way there is gone already.
func replaced(v any, path spec.NormalizedPath, by string) any {
	if len(path) == 0 {
		return by
	}
	switch in := v.(type) {
	case map[string]any:
		if name, ok := path[0].(spec.Name); ok {
			in[string(name)] = replaced(in[string(name)], path[1:], by)
		}
	case []any:
		if index, ok := path[0].(spec.Index); ok {
			in[index] = replaced(in[index], path[1:], by)
		}
	}
	return v
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}
