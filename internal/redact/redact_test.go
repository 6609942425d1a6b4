package redact_test

import (
	"strings"
	"testing"

	"example.com/whctl/internal/redact"
)

func parse(t testing.TB, texts ...string) (rules redact.Rules) {
	t.Helper()
	for _, text := range texts {
		r, err := redact.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// What is selected goes, whole; every other byte stays as it was.
func TestWholeText(t *testing.T) {
	for _, c := range []struct{ name, rules, text, want string }{
		{"a member", `$.a`, `{"a":1,"b":2}`, `{"a":"[redacted]","b":2}`},
		{"a subtree", `$.a`, `{"a":{"x":[1,{"y":null}]},"b":2}`, `{"a":"[redacted]","b":2}`},
		{"all below", `$.student.*`, `{"student":{"name":"Jane","n":[1]},"x":{"name":"y"}}`, `{"student":{"name":"[redacted]","n":"[redacted]"},"x":{"name":"y"}}`},
		{"at any depth", `$..email`, `{"email":"a","l":[{"email":{"email":1}},["email"]]}`, `{"email":"[redacted]","l":[{"email":"[redacted]"},["email"]]}`},
		{"below any depth", `$..a.b`, `{"a":{"b":1,"a":{"b":2}},"x":{"a":{"b":3}}}`, `{"a":{"b":"[redacted]","a":{"b":"[redacted]"}},"x":{"a":{"b":"[redacted]"}}}`},
		{"everything", `$`, ` {"a":1} `, ` "[redacted]" `},
		{"everything below", `$..*`, `{"a":[1],"b":{}}`, `{"a":"[redacted]","b":"[redacted]"}`},
		{"a name twice in one object", `$.a`, `{"a":1,"b":2,"a":[3]}`, `{"a":"[redacted]","b":2,"a":"[redacted]"}`},
		{"an object twice", `$.a.b`, `{"a":{"b":1},"a":{"b":2}}`, `{"a":{"b":"[redacted]"},"a":{"b":"[redacted]"}}`},
		{"escaped names are the same", `$.email`, `{"\u0065mail":1,"e\/":2}`, `{"\u0065mail":"[redacted]","e\/":2}`},
		{"names are as written", `$..email`, `{"Email":1,"email ":2,"e-mail":3}`, `{"Email":1,"email ":2,"e-mail":3}`},
		{"names in brackets", `$['a,b',"c.d"]`, `{"a,b":1,"c.d":2,"c":{"d":3}}`, `{"a,b":"[redacted]","c.d":"[redacted]","c":{"d":3}}`},
		{"an index", `$[1]`, `[1, 2 ,3]`, `[1, "[redacted]" ,3]`},
		{"an index from the end", `$[-1].a`, `[{"a":1},{"a":2}]`, `[{"a":1},{"a":"[redacted]"}]`},
		{"no such index", `$[5,-5]`, `[1,2]`, `[1,2]`},
		{"an index is no name", `$[0]`, `{"0":1}`, `{"0":1}`},
		{"a slice", `$[1:5:2]`, `[0,1,2,3,4]`, `[0,"[redacted]",2,"[redacted]",4]`},
		{"a slice backwards", `$[::-2]`, `[0,1,2,3]`, `[0,"[redacted]",2,"[redacted]"]`},
		{"a slice to the end", `$[-2:]`, `[0,1,2]`, `[0,"[redacted]","[redacted]"]`},
		{"a slice without steps", `$[::0]`, `[0,1]`, `[0,1]`},
		{"a filter", `$[?@.private==true].v`, `[{"private":true,"v":1},{"v":2}]`, `[{"private":true,"v":"[redacted]"},{"v":2}]`},
		{"a filter by the root", `$.l[?@.k==$.k]`, `{"k":7,"l":[{"k":7},{"k":8}]}`, `{"k":7,"l":["[redacted]",{"k":8}]}`},
		{"a filter on what is hidden", `$[?@.private==true].v`, `[{"private":true,"private":false,"v":1},{"v":2}]`, `[{"private":true,"private":false,"v":"[redacted]"},{"v":"[redacted]"}]`},
		{"several rules", `$.a $..b`, `{"a":{"b":1},"c":{"b":2}}`, `{"a":"[redacted]","c":{"b":"[redacted]"}}`},
		{"bytes stay", `$.z`, "\t{ \"n\" : 12345678901234567890,\"f\":1.0e0 ,\"s\":\"\\u00e9é\\/\" ,\"z\" :  [ ] }\r\n", "\t{ \"n\" : 12345678901234567890,\"f\":1.0e0 ,\"s\":\"\\u00e9é\\/\" ,\"z\" :  \"[redacted]\" }\r\n"},
		{"a byte order mark", `$.a`, "\uFEFF{\"a\":1}", "\uFEFF{\"a\":\"[redacted]\"}"},
		{"a text alone", `$.a`, `"a"`, `"a"`},
		{"broken letters", `$.a`, "{\"\xff\":\"\xfe\",\"a\":\"\xff\"}", "{\"\xff\":\"\xfe\",\"a\":\"[redacted]\"}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, form := parse(t, strings.Fields(c.rules)...).Apply([]byte(c.text))
			if string(got) != c.want || form != redact.Whole {
				t.Errorf("form %d\n got %s\nwant %s", form, got, c.want)
			}
		})
	}
}

// A text that breaks off: what would be selected never shows its beginning, nor does
// what might be.
func TestBrokenText(t *testing.T) {
	for _, c := range []struct{ name, rule, text, want string }{
		{"in a value", `$.a`, `{"b":1,"a":"jane@sch`, `{"b":1,"a":"[redacted]"`},
		{"in a number", `$.a`, `{"a":12`, `{"a":"[redacted]"`},
		{"in a word", `$.a`, `{"a":tr`, `{"a":"[redacted]"`},
		{"in an escape", `$.a`, `{"a":"x\u00`, `{"a":"[redacted]"`},
		{"in a letter", `$.a`, "{\"a\":\"\xc3", `{"a":"[redacted]"`},
		{"in a subtree", `$.a`, `{"a":{"x":[1,"ja`, `{"a":"[redacted]"`},
		{"deeper", `$.a.x[*]`, `{"a":{"x":[1,"ja`, `{"a":{"x":["[redacted]","[redacted]"`},
		{"in another value", `$.a`, `{"a":1,"b":"ja`, `{"a":"[redacted]","b":"ja`},
		{"in a name", `$.*`, `{"a":1,"ja`, `{"a":"[redacted]","ja`},
		{"before a value", `$.a`, `{"a": `, `{"a": `},
		{"before the first", `$.a`, `{`, `{`},
		{"behind a comma", `$[*]`, `[1, `, `["[redacted]", `},
		{"any item may be the last", `$[-1]`, `[1,[2,3],4`, `["[redacted]","[redacted]","[redacted]"`},
		{"of a list that ended the last is known", `$..[-1]`, `{"a":[1,2],"b":[3`, `{"a":[1,"[redacted]"],"b":["[redacted]"`},
		{"any item may be in the slice", `$[-2:]`, `[1,2,3`, `["[redacted]","[redacted]","[redacted]"`},
		{"backwards, too", `$[::-3]`, `[1,2,3`, `["[redacted]","[redacted]","[redacted]"`},
		{"a slice from the beginning", `$[1:3]`, `[1,2,3,4`, `[1,"[redacted]","[redacted]",4`},
		{"a filter may ask for the rest", `$[?@.p==$.p]`, `{"x":{"p":1},"p":`, `{"x":"[redacted]","p":`},
		{"no JSON from there on", `$.a`, `{"b":"x",oops,"a":"jane"}`, `{"b":"x"`},
		{"no JSON in a value", `$.a`, `{"b":"x","a":"ja` + "\n" + `ne"}`, `{"b":"x","a"`},
		{"more behind it", `$.a`, `{"a":1} {"a":2}`, `{"a":"[redacted]"}`},
		{"part of more", `$.a`, `{"a":1} "ja`, `{"a":"[redacted]"}`},
		{"words behind it", `$.a`, `{"a":1} for jane`, `{"a":"[redacted]"}`},
		{"a byte order mark", `$.a`, "\uFEFF{\"a\":\"ja", "\uFEFF{\"a\":\"[redacted]\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, form := parse(t, c.rule).Apply([]byte(c.text))
			if string(got) != c.want || form != redact.Broken {
				t.Errorf("form %d\n got %s\nwant %s", form, got, c.want)
			}
		})
	}
}

// Nothing of what is no JSON is judged; the caller is told.
func TestNoJSON(t *testing.T) {
	for _, text := range []string{
		"", " ", "Internal Server Error", "<html>", "[error] no such thing", "[2026-03-01] ERROR", "{{template}}", `"jane`, "12 apples", `"a" and "b"`,
		"\uFEFF", "\xff", "nul", "-",
	} {
		if got, form := parse(t, `$..*`, `$`).Apply([]byte(text)); string(got) != text || form != redact.None {
			t.Errorf("%q: form %d, %q", text, form, got)
		}
	}
}

// What is nested deeper than anybody means it breaks off, before it costs time or stack.
func TestDeepText(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 2000) + strings.Repeat("]", 2000), strings.Repeat(`{"a":`, 2000)} {
		got, form := parse(t, `$..b..c[?@..d]`).Apply([]byte(text))
		if want := strings.TrimSuffix(text[:len(got)], ":"); form != redact.Broken || string(got) != want || len(got) > 6*1001 {
			t.Errorf("form %d, %d bytes", form, len(got))
		}
	}
}

// What a filter asks for may stand where the text was too deep.
func TestFiltersOfDeepText(t *testing.T) {
	text := "[" + strings.Repeat("[", 2000) + `{"d":1}` + strings.Repeat("]", 2000) + "]"
	if got, form := parse(t, `$[?@..e]`).Apply([]byte(text)); string(got) != `["[redacted]"` || form != redact.Broken {
		t.Errorf("form %d, %.40s", form, got)
	}
	if got, form := parse(t, `$[?@.d==1]`).Apply([]byte(`[{"d":1},{"d":2}] and more`)); string(got) != `["[redacted]",{"d":2}]` || form != redact.Broken {
		t.Errorf("form %d, %s", form, got)
	}
}

// Rules that lead to the same values in many ways take no longer for it: this takes
// milliseconds, or longer than anybody lives.
func TestManyWays(t *testing.T) {
	text := strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900)
	if got, form := parse(t, `$`+strings.Repeat("..*", 12)+"..b").Apply([]byte(text)); string(got) != text || form != redact.Whole {
		t.Errorf("form %d, %.40s", form, got)
	}
}

func TestRulesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":          `"" is no JSONPath: unexpected end of input`,
		"email":     `"email" is no JSONPath: unexpected identifier at position 1`,
		"$.":        `"$." is no JSONPath: unexpected eof at position 3`,
		"$.a[":      `"$.a[" is no JSONPath: unexpected eof at position 5`,
		"$.a b":     `"$.a b" is no JSONPath: unexpected blank space at position 4`,
		"$.a-b":     `"$.a-b" is no JSONPath: invalid number literal at position 4`,
		"$[?@.a=1]": `"$[?@.a=1]" is no JSONPath: invalid comparison operator at position 7`,
	} {
		if _, err := redact.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if r := parse(t, `$..['e']`)[0]; r.String() != `$..['e']` {
		t.Error(r)
	}
}
