package httpsend

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

// H31: receivers quote the request in their error pages. None of it stays.
func TestAnswersThatQuoteTheRequest(t *testing.T) {
	secrets := []string{"TOK-5542", "Q-9910", "Bearer", "Pw-7731", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "jane@school.example", "Zoë Doe", "5551234567", "O\\\"Neil", "E-11"}
	quote := "Cannot POST /hook/TOK-5542?token=Q-9910\n" + `url="\/hook\/TOK-5542" token Q-9910 (TOK-5542)` +
		" auth: Bearer Pw-7731, Pw-7731, key whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw," +
		` jane@school.example is no address of Zoë Doe (phone 5551234567) {"name":"O\"Neil"}: enrolment E-11 has no field 'student'; d-1`
	rec := receive(t, func(c net.Conn, _ seen) bool {
		return say(c, fmt.Sprintf("HTTP/1.1 400 %s\r\nContent-Length: %d\r\n\r\n%s", strings.ReplaceAll(quote, "\n", " "), len(quote), quote))
	})
	r := request(rec.url + "/hook/TOK-5542?token=Q-9910")
	r.Headers = map[string]string{"Authorization": "Bearer Pw-7731", "Content-Type": "application/json"}
	r.Keys = []Key{secret}
	r.Body = []byte(`{"enrolment":"E-11","student":{"mail":"jane@school.example","name":"Zoë Doe","phone":5551234567,"n":1},"other":["O\"Neil"],"id":"d-1"}`)
	o := send(t, newSender(t, loopback()), r)
	wantClass(t, o, work.Rejected, 400)
	for _, s := range secrets {
		if strings.Contains(o.Excerpt+o.Message, s) {
			t.Errorf("%q is left in %q, %q", s, o.Message, o.Excerpt)
		}
	}
	for _, s := range []string{"Cannot POST [redacted]", "enrolment [redacted] has no field 'student'; d-1", "[redacted] is no address of [redacted]"} {
		if !strings.Contains(o.Excerpt, s) {
			t.Errorf("%q is gone from %q", s, o.Excerpt)
		}
	}
}

// A secret that goes through the end of what is read leaves no beginning behind.
func TestQuoteThatIsCut(t *testing.T) {
	for cut := maxExcerpt + overlap - 20; cut <= maxExcerpt+overlap; cut++ {
		// What is read shrinks below what is kept, so that its end would be kept too.
		const quote = "/hook/TOK-5542-and-more "
		page := strings.Repeat(quote, cut/len(quote)-1)
		page += strings.Repeat(".", cut-10-len(page)) + quote + strings.Repeat(".", 100)
		rec := answering(t, fmt.Sprintf("HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s", len(page), page))
		o := send(t, newSender(t, loopback()), request(rec.url+"/hook/TOK-5542-and-more"))
		if strings.Contains(o.Excerpt, "/hoo") || strings.Contains(o.Excerpt, "TOK") || !strings.HasSuffix(o.Excerpt, cutMark) {
			t.Fatalf("cut at %d: %q", cut, o.Excerpt[max(0, len(o.Excerpt)-60):])
		}
	}
}

// A payload that is no JSON, or too much of it, gives up all its words.
func TestQuoteOfOtherPayloads(t *testing.T) {
	quote := "row 7 of jane@school.example,Zoe is not right"
	for name, body := range map[string]string{
		"CSV": "id,mail\n7,jane@school.example,Zoe\n", "large": `["` + strings.Repeat("x", maxParsed) + `","jane@school.example,Zoe"]`,
	} {
		rec := answering(t, fmt.Sprintf("HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s", len(quote), quote))
		r := request(rec.url)
		r.Body = []byte(body)
		if o := send(t, newSender(t, loopback()), r); o.Excerpt != "row 7 of [redacted],Zoe is not right" {
			t.Errorf("%s: %q", name, o.Excerpt)
		}
	}
}

// Words that a payload and an answer share by chance are left alone where they are part
// of longer ones; nothing short is taken out.
func TestScrubLeavesWords(t *testing.T) {
	r := request("https://hooks.example/api/hooks/v1")
	r.Body = []byte(`{"a":"err","b":"ok","n":42}`)
	u := newSender(t, loopback()).targetOf("https://hooks.example/api/hooks/v1").target
	text := "error: the hooks api said 42, ok"
	if got := newScrubber(r, u).scrub(text, false); got != text {
		t.Error(got)
	}
}
