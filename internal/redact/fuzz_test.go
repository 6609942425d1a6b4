package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
		{`$[?@.a==1]`, `[{"a":1},{"a":2,"a":1}]`},
		{`$['\u0065',"x\ud83d\ude00"]`, "\uFEFF{\"\\u0065\":1,\"x\U0001F600\":[]} "},
		{`$`, `"jane`},
		{`$..*..a`, `{"a":{"a":{"b":["\u00`},
		{`$.a`, "{\"\xff\":\"\xfe\",\"a\":\"\xc3"},
	} {
		f.Add(s[0], []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, text string, doc []byte) {
		if len(text) > 100 || len(doc) > 1000 || strings.Contains(text, "?") && len(doc) > 200 || strings.Count(text, "..") > 3 {
			return // what the library takes for it grows with a power of it
		}
		rule, err := redact.Parse(text)
		if err != nil {
			return
		}
		shown, form := redact.Rules{rule}.Apply(doc)
		if len(shown) > len(`"`+redact.Mark+`"`)*len(doc) {
			t.Fatalf("%d bytes of %d", len(shown), len(doc))
		}
		plain := bytes.TrimPrefix(doc, []byte("\uFEFF"))
		if json.Valid(plain) != (form == redact.Whole) {
			t.Fatalf("form %d of %q", form, doc)
		}
		switch form {
		case redact.None:
			if !bytes.Equal(shown, doc) {
				t.Fatalf("%q became %q", doc, shown)
			}
		case redact.Broken:
			wantPieces(t, shown, doc)
		case redact.Whole:
			wantPieces(t, shown, doc)
			wantSelected(t, text, plain, bytes.TrimPrefix(shown, []byte("\uFEFF")))
			wantCutsToHide(t, rule, plain)
		}
	})
}

// wantPieces wants what stands between the marks to stand in doc, in that order.
func wantPieces(t *testing.T, shown, doc []byte) {
	t.Helper()
	pieces := bytes.Split(shown, []byte(`"`+redact.Mark+`"`))
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
	if strings.Contains(rule, "?") && repeats(t, doc) {
		return // a filter sees one of two members of the same name
	}
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
	if text, err := json.Marshal(v); err != nil || strings.Contains(rule.String(), "?") || bytes.IndexByte(text, sign[0]) >= 0 {
		return
	}
	for _, n := range jsonpath.MustParse(rule.String()).SelectLocated(v) {
		v = replaced(v, n.Path, strings.Repeat(sign, 3))
	}
	signed, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for n := range signed {
		shown, form := redact.Rules{rule}.Apply(signed[:n])
		if form != redact.None && bytes.IndexByte(shown, sign[0]) >= 0 {
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

// repeats says whether an object in text has two members of one name: a decoded value
// that is written again then has fewer tokens.
func repeats(t *testing.T, text []byte) bool {
	t.Helper()
	again, err := json.Marshal(decode(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return tokens(t, text) != tokens(t, again)
}

func tokens(t *testing.T, text []byte) (n int) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
		n++
	}
}
