package httpsend

import (
	"fmt"
	"strings"
	"testing"

	"example.com/whctl/internal/redact"
	"example.com/whctl/internal/work"
)

func rules(t testing.TB, texts ...string) (rs redact.Rules) {
	t.Helper()
	for _, text := range texts {
		r, err := redact.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

// What the rules name is not kept of an answer, of whatever status, and also where the
// request said nothing of it.
func TestAnswersAreRedacted(t *testing.T) {
	c := loopback()
	c.Redact = rules(t, "$.student.*", "$..email")
	s := newSender(t, c)
	long := strings.Repeat("x", maxExcerpt+overlap)
	for _, x := range []struct{ body, want string }{
		{`{"error":"no seat","student":{"name":"Jane","age":17},"by":{"email":"r@school.example"}}`, `{"error":"no seat","student":{"name":"[redacted]","age":"[redacted]"},"by":{"email":"[redacted]"}}`},
		{"[{\"email\":\"a\x00\"}]", `[{"email" [cut]`}, // a raw NUL is no JSON: what stands behind it is not known
		{"[\n\t{\"email\":\"\\u0000\"}]", `[  {"email":"[redacted]"}]`},
		{`{"email":"` + long, `{"email":"[redacted]" [cut]`},
		{`{"e":1,"student":{"name":"Jane` + long, `{"e":1,"student":{"name":"[redacted]" [cut]`},
		{`{"e":"no seat"} for jane@school.example`, `{"e":"no seat"} [cut]`},
		{"no seat for Jane", "no seat for Jane"},
		{`{"a":"` + strings.Repeat("y", maxExcerpt-10) + `","email":"jane"}`, `{"a":"` + strings.Repeat("y", maxExcerpt-10) + `","e [cut]`},
	} {
		for _, status := range []int{200, 400} {
			rec := answering(t, fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", status, len(x.body), x.body))
			r := request(rec.url)
			r.SuccessBodyMax = maxExcerpt
			o := send(t, s, r)
			wantClass(t, o, work.ClassOfStatus(status), status)
			if o.Excerpt != x.want {
				t.Errorf("%.60q\n got %.120q\nwant %.120q", x.body, o.Excerpt, x.want)
			}
		}
	}
}
