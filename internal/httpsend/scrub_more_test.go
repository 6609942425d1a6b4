package httpsend

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

// The host of a redirect is the receiver's choice, and stands in the message in small
// letters.
func TestRedirectsThatQuoteTheRequest(t *testing.T) {
	for location, shown := range map[string]string{
		"https://grace-hopper-1906.hooks.example/":      "",
		"https://x.HDR-5ecret-771.example/":             "",
		"https://y--TOK-5542--z.example/":               "",
		"https://zo%C3%AB.example/":                     "",
		"https://hooks.example/Grace-Hopper-1906":       "; this one leads to hooks.example",
		"https://user:hdr-5ecret-771@login.example/":    "; this one leads to login.example",
		"https://hooks.example:8443/?Grace-Hopper-1906": "; this one leads to hooks.example",

		"//127.0.0.1/": "; this one leads to 127.0.0.1",
	} {
		rec := answering(t, "HTTP/1.1 307 X\r\nLocation: "+location+"\r\nContent-Length: 0\r\n\r\n")
		for _, body := range []string{`{"name":"Grace-Hopper-1906","given":"Zoë","to":"127.0.0.1"}`, "name=Grace-Hopper-1906,Zoë,127.0.0.1\n"} {
			r := request(rec.url + "/hook/TOK-5542")
			r.Headers = map[string]string{"X-Token": "hdr-5ecret-771"}
			r.Body = []byte(body)
			o := send(t, newSender(t, loopback()), r)
			wantClass(t, o, work.Redirect, 307)
			if want := "307 Temporary Redirect: redirects are not followed" + shown; o.Message != want {
				t.Errorf("%s: %q, want %q", location, o.Message, want)
			}
		}
	}
}

// What Basic stands for is as secret as its code.
func TestAnswersThatDecodeBasic(t *testing.T) {
	for header, quote := range map[string]string{
		"Basic dXNlcjpQdy03NzMx":     "user:Pw-7731", // user:Pw-7731
		"basic  dXNlcjpQdy03NzMx ":   "no such password: Pw-7731",
		"Basic dXNlcjE6UHctNzczMQ==": "dXNlcjE6UHctNzczMQ is user1 with (Pw-7731)", // user1:Pw-7731
		"Basic dXNlcjE6UHctNzczMQ":   "user1:Pw-7731",
		"Basic dXNlcjpQdy03NzMxL3gh": `"user:Pw-7731\/x!"`, // user:Pw-7731/x!
	} {
		rec := answering(t, fmt.Sprintf("HTTP/1.1 401 X\r\nContent-Length: %d\r\n\r\n%s", len(quote), quote))
		r := request(rec.url)
		r.Headers = map[string]string{"Authorization": header}
		if o := send(t, newSender(t, loopback()), r); strings.Contains(o.Excerpt, "Pw-") || strings.Contains(o.Excerpt, "dXN") || !strings.Contains(o.Excerpt, redacted) {
			t.Errorf("%s: %q", header, o.Excerpt)
		}
	}
}

// A payload of the mark's own word, or of parts of it, is like any other, however often
// it says so.
func TestScrubTakesTheMarksOwnWord(t *testing.T) {
	s := &scrubber{json: true}
	s.addSecret("redact")
	s.body = []byte("[" + strings.Repeat(`"redacted","acted",`, 500) + "0]")
	if got := s.scrub("it was redacted, acted [redacted].", false); got != "it was [redacted], [redacted] [[redacted]]." {
		t.Error(got)
	}
}

// A body that ends exactly where reading does was not cut, also where its end is told
// after its last byte.
func TestBodyThatEndsWhereReadingDoes(t *testing.T) {
	for _, keep := range []int{1, maxExcerpt, maxDrain - overlap, maxKept} {
		for size, more := range map[int]bool{keep: false, keep + overlap - 1: false, keep + overlap: false, keep + overlap + 1: true, maxDrain: maxDrain > keep+overlap} {
			for _, length := range []int64{-1, int64(size)} {
				resp := &http.Response{ContentLength: length, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", size)))}
				e := readEvidence(resp, keep)
				if e.more != more || len(e.text) != min(size, keep+overlap) || e.err != nil {
					t.Errorf("keep %d of %d: %d bytes, more %v, %v", keep, size, len(e.text), e.more, e.err)
				}
			}
		}
	}
}

// Quotations that say the same in other bytes, and parts of secrets.
func TestAnswersThatQuoteInOtherForms(t *testing.T) {
	u, err := url.Parse("https://hooks.example/in?token=Q-9910&BareQ77Secret")
	if err != nil {
		t.Fatal(err)
	}
	to := &target{url: u, host: u.Host}
	r := Request{
		Body:    []byte(`{"name":"Zoë Müller","mood":"fine 😀 \"so\"","n":"First Person","n":"Second Person"}`),
		Headers: map[string]string{"Cookie": "session=sess-66ab; theme=dark"},
	}
	for text, want := range map[string]string{
		`{"name":"Zo\u00eb M\u00fcller"}`:                `{"name":"[redacted]"}`,
		`no Zoë Müller here`:                             `no [redacted] here`,
		`{"mood":"fine \ud83d\ude00 \"so\""}`:            `{"mood":"[redacted]"}`,
		`First Person, Second Person`:                    `[redacted], [redacted]`,
		`unknown BareQ77Secret of cookie sess-66ab`:      `unknown [redacted] of cookie [redacted]`,
		`the theme is dark, and so are the dark figures`: `the theme is dark, and so are the dark figures`,
	} {
		if got := newScrubber(r, to).scrub(text, false); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
