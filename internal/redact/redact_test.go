package redact_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

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
		{"several rules", `$.a $..b`, `{"a":{"b":1},"c":{"b":2}}`, `{"a":"[redacted]","c":{"b":"[redacted]"}}`},
		{"bytes stay", `$.z`, "\t{ \"n\" : 12345678901234567890,\"f\":1.0e0 ,\"s\":\"\\u00e9é\\/\" ,\"z\" :  [ ] }\r\n", "\t{ \"n\" : 12345678901234567890,\"f\":1.0e0 ,\"s\":\"\\u00e9é\\/\" ,\"z\" :  \"[redacted]\" }\r\n"},
		{"a byte order mark", `$.a`, "\uFEFF{\"a\":1}", "\uFEFF{\"a\":\"[redacted]\"}"},
		{"a text alone", `$.a`, `"a"`, `"a"`},
		{"broken letters", `$.a`, "{\"\xff\":\"\xfe\",\"a\":\"\xff\"}", "{\"\xff\":\"\xfe\",\"a\":\"[redacted]\"}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, cut := parse(t, strings.Fields(c.rules)...).Apply([]byte(c.text))
			if string(got) != c.want || cut {
				t.Errorf("cut %v\n got %s\nwant %s", cut, got, c.want)
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
		{"no JSON from there on", `$.a`, `{"b":"x",oops,"a":"jane"}`, `{"b":"x"`},
		{"no JSON in a value", `$.a`, `{"b":"x","a":"ja` + "\n" + `ne"}`, `{"b":"x","a"`},
		{"more behind it", `$.a`, `{"a":1} {"a":2}`, `{"a":"[redacted]"}`},
		{"part of more", `$.a`, `{"a":1} "ja`, `{"a":"[redacted]"}`},
		{"words behind it", `$.a`, `{"a":1} for jane`, `{"a":"[redacted]"}`},
		{"a byte order mark", `$.a`, "\uFEFF{\"a\":\"ja", "\uFEFF{\"a\":\"[redacted]\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, cut := parse(t, c.rule).Apply([]byte(c.text))
			if string(got) != c.want || !cut {
				t.Errorf("cut %v\n got %s\nwant %s", cut, got, c.want)
			}
		})
	}
}

// What is JSON in a text of something else is redacted, and nothing behind it is kept.
// What might be something like JSON is not kept.
func TestOtherText(t *testing.T) {
	wide := func(order binary.AppendByteOrder, mark, text string) string {
		b := []byte(mark)
		for _, u := range utf16.Encode([]rune(text)) {
			b = order.AppendUint16(b, u)
		}
		return string(b)
	}
	const jane = `{"email":"jane"}`
	for _, c := range []struct{ name, text, want string }{
		{"a word before it", `Error 422: {"email":"jane"}`, `Error 422: {"email":"[redacted]"}`},
		{"a list", `Error 422: [{"email":"jane"}]`, `Error 422: [{"email":"[redacted]"}]`},
		{"an event stream", "event: error\ndata: {\"email\":\"jane\"}\n\ndata: {\"email\":\"jane\"}\n\n", "event: error\ndata: {\"email\":\"[redacted]\"}"},
		{"a callback", `cb({"email":"jane"});`, `cb({"email":"[redacted]"}`},
		{"a guard against scripts", ")]}',\n{\"email\":\"jane\"}", ")]}',\n{\"email\":\"[redacted]\"}"},
		{"an endless loop", `for(;;);{"email":"jane"}`, `for(;;);{"email":"[redacted]"}`},
		{"lines", "{\"a\":1}\n{\"email\":\"jane\"}\n", `{"a":1}`},
		{"a comment before it", "// no seat\n" + jane, "// no seat\n{\"email\":\"[redacted]\"}"},
		{"a comment first", `{/* "x" */"email":"jane"}`, `[redacted]`},
		{"a comment in it", `{"a":1,/* x */"email":"jane"}`, `{"a":1`},
		{"a comment before a value", `{"email":/* x */"jane"}`, `{"email"`},
		{"a comma at the end", `{"a":1,"email":"jane",}`, `{"a":1,"email":"[redacted]"`},
		{"a comma at the end of a list", `[{"email":"jane"},]`, `[{"email":"[redacted]"}`},
		{"a byte order mark", "\uFEFF" + jane, "\uFEFF{\"email\":\"[redacted]\"}"},
		{"UTF-16, little end first", wide(binary.LittleEndian, "\xff\xfe", jane), `[redacted]`},
		{"UTF-16, big end first", wide(binary.BigEndian, "\xfe\xff", jane), `[redacted]`},
		{"UTF-16 without a mark", wide(binary.LittleEndian, "", jane), `[redacted]`},
		{"UTF-16 without a mark, big end first", wide(binary.BigEndian, "", "jane is no "+jane), `[redacted]`},
		{"single quotes", `Error: {'email': 'jane'}`, `Error: [redacted]`},
		{"no quotes", `{email: jane}`, `[redacted]`},
		{"a list without quotes", `Error: ['jane']`, `Error: [redacted]`},
		{"a part of JSON", `"email":"jane"}`, `[redacted]`},
		{"a part of JSON with more", `bad "email":"jane", {"a":1}`, `bad [redacted]`},
		{"a text that breaks off", `"jane`, `[redacted]`},
		{"a template", `{{template}} jane`, `[redacted]`},
		{"a log line", `[2026-03-01] ERROR jane`, `[redacted]`},
		{"HTML", `<p>no seat <a href="/jane">`, `<p>no seat <a href=[redacted]`},
		{"prose with a note", `see [1] for jane`, `see [1]`},
		{"prose", "no seat for 12 at 10:00", "no seat for 12 at 10:00"},
		{"prose of broken letters", "\xff\x00nul -", "\xff\x00nul -"},
		{"nothing", "", ""},
		{"blanks", " \n", " \n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, cut := parse(t, `$..email`).Apply([]byte(c.text))
			// Complete is what still ends as it did.
			complete := c.text == c.want || c.text[len(c.text)-1] == c.want[len(c.want)-1] && c.want[len(c.want)-1] == '}' || strings.HasSuffix(c.want, "}]")
			if string(got) != c.want || cut == complete {
				t.Errorf("cut %v\n got %q\nwant %q", cut, got, c.want)
			}
		})
	}
}

// What is nested deeper than anybody means it breaks off, before it costs time or stack.
func TestDeepText(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 2000) + strings.Repeat("]", 2000), strings.Repeat(`{"a":`, 2000)} {
		got, cut := parse(t, `$..b..c[-1]`).Apply([]byte(text))
		if want := strings.TrimSuffix(text[:len(got)], ":"); !cut || string(got) != want || len(got) > 6*1001 {
			t.Errorf("cut %v, %d bytes", cut, len(got))
		}
	}
}

// Rules that lead to the same values in many ways take no longer for it: this takes
// milliseconds, or longer than anybody lives.
func TestManyWays(t *testing.T) {
	text := strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900)
	if got, cut := parse(t, `$`+strings.Repeat("..*", 12)+"..b").Apply([]byte(text)); string(got) != text || cut {
		t.Errorf("cut %v, %.40s", cut, got)
	}
}

func TestRulesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                 `"" is no JSONPath: unexpected end of input`,
		"email":            `"email" is no JSONPath: unexpected identifier at position 1`,
		"$.":               `"$." is no JSONPath: unexpected eof at position 3`,
		"$.a[":             `"$.a[" is no JSONPath: unexpected eof at position 5`,
		"$.a b":            `"$.a b" is no JSONPath: unexpected blank space at position 4`,
		"$.a-b":            `"$.a-b" is no JSONPath: invalid number literal at position 4`,
		"$[?@.a=1]":        `"$[?@.a=1]" is no JSONPath: invalid comparison operator at position 7`,
		"$.l[0,?@.a==1].b": `"$.l[0,?@.a==1].b": a filter (?) is not supported; name the members, as in $.items[*].email`,
		"$..[?$..a]":       `"$..[?$..a]": a filter (?) is not supported; name the members, as in $.items[*].email`,
	} {
		if _, err := redact.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if r := parse(t, `$..['e']`)[0]; r.String() != `$..['e']` {
		t.Error(r)
	}
}
