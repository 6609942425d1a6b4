package httpsend

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"example.com/whctl/internal/work"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 700e6, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	const hour = time.Hour
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"120", "", 120 * time.Second},
		{" 120 ", "", 120 * time.Second},
		{date(120 * time.Second), date(0), 121 * time.Second},
		{date(120 * time.Second), "", 120*time.Second + 300*time.Millisecond},
		{date(120 * time.Second), "no date", 120*time.Second + 300*time.Millisecond},
		{date(5*hour + 120*time.Second), date(5 * hour), 121 * time.Second}, // the receiver's clock is hours off
		{date(120*time.Second - 5*hour), date(-5 * hour), 121 * time.Second},
		{"Sunday, 01-Mar-26 10:02:00 GMT", date(0), 121 * time.Second},
		{"Sun Mar  1 10:02:00 2026", date(0), 121 * time.Second},
		{"0", "", 0},
		{"000", "", 0},
		{"-5", "", 0},
		{"+5", "", 0},
		{"1.5", "", 0},
		{"1e3", "", 0},
		{"٣", "", 0},
		{"soon", "", 0},
		{"", "", 0},
		{"120, 60", "", 0},
		{date(0), date(0), 0},
		{date(-time.Second), date(0), 0},
		{"Tue, 15 Nov 1994 08:12:31 GMT", date(0), 0},
		{"1000000000000", "", maxRetryAfter},
		{"9223372037", "", maxRetryAfter}, // times a second this overflows, and would be the past
		{"9223372036854775807", "", maxRetryAfter},
		{"99999999999999999999999", "", maxRetryAfter},
		{"Fri, 31 Dec 9999 23:59:59 GMT", date(0), maxRetryAfter},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT", maxRetryAfter},
	} {
		h := http.Header{"Retry-After": {c.value}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := retryAfter(h, func() time.Time { return now }); got != c.want {
			t.Errorf("%q with Date %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

func TestRetryAfterComesWithTheOutcome(t *testing.T) {
	s := newSender(t, loopback())
	for status, want := range map[int]time.Duration{200: 0, 503: 7 * time.Second, 429: 7 * time.Second, 408: 7 * time.Second, 425: 7 * time.Second} {
		rec := receive(t, func(c net.Conn, _ seen) bool {
			return say(c, fmt.Sprintf("HTTP/1.1 %d X\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", status))
		})
		o := send(t, s, request(rec.url))
		wantClass(t, o, work.ClassOfStatus(status), status)
		if o.RetryAfter != want {
			t.Errorf("%d: %v", status, o.RetryAfter)
		}
	}
}
