package httpsend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"example.com/whctl/internal/work"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The published example of Standard Webhooks: secret, id, time, body and signature.
func TestPublishedSignature(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	r := request(rec.url)
	r.DeliveryID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	r.Keys = []Key{secret}
	wantClass(t, send(t, newSender(t, loopback()), r), work.OK, 200)
	got := rec.seen()[0]
	for name, want := range map[string]string{
		"webhook-id":        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
}

func TestTheWire(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	r := request(rec.url + "/hook?x=1")
	r.Headers = map[string]string{"x-tenant": "école"}
	r.RedriveID = "r-9"
	wantClass(t, send(t, s, r), work.OK, 200)
	got := rec.seen()[0]
	want := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"whctl/test"}, "Idempotency-Key": {"d-1"},
		"X-Webhook-Attempt-Id": {"11111111-2222-7333-8444-555555555555"}, "X-Webhook-Attempt": {"3"}, "X-Webhook-Generation": {"2"},
		"X-Webhook-Redrive-Id": {"r-9"}, "X-Tenant": {"école"}, "Webhook-Id": {"d-1"}, "Webhook-Timestamp": {"1614265330"}, "Content-Length": {"20"},
	}
	if fmt.Sprint(got.header) != fmt.Sprint(want) {
		t.Errorf("headers\n%v, want\n%v", got.header, want)
	}
}

// Whatever the bytes are, the receiver gets them as they are and their length before
// them, and an independent check takes the signature.
func TestTheBytesAreTheContract(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	for _, body := range []string{
		"", "\x00\xff", "{\"b\":1.0,  \"a\":12345678901234567890,\"a\":2,\"u\":\"\\u00e9é\"}\n", strings.Repeat("x", 256<<10), strings.Repeat("é", 5<<20),
	} {
		r := request(rec.url)
		r.Body, r.Keys = []byte(body), []Key{secret}
		wantClass(t, send(t, s, r), work.OK, 200)
		all := rec.seen()
		got := all[len(all)-1]
		if got.body != body || got.length != int64(len(body)) || got.header.Get("Transfer-Encoding") != "" {
			t.Errorf("%d bytes came as %d, announced as %d", len(body), len(got.body), got.length)
		}
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.VerifyIgnoringTimestamp([]byte(got.body), got.header); err != nil {
			t.Error(err)
		}
	}
	if n := rec.connections(); n != 1 {
		t.Errorf("%d connections for requests one after the other", n)
	}
}

// While keys rotate, each receiver finds a signature for the key it has.
func TestKeysRotate(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	r := request(rec.url)
	older := "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX" // without the prefix
	r.Keys = []Key{secret, Key(" whsec_" + older + "\r\n")}
	wantClass(t, send(t, newSender(t, loopback()), r), work.OK, 200)
	got := rec.seen()[0]
	for _, key := range []string{secret, older} {
		w, err := standardwebhooks.NewWebhook(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.VerifyIgnoringTimestamp([]byte(got.body), got.header); err != nil {
			t.Errorf("%s: %v in %q", key, err, got.header.Get("webhook-signature"))
		}
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	for _, key := range []Key{"", "whsec_", "whsec_no base64!", "plain text"} {
		if _, err := ParseKey(string(key), work.StandardWebhooks); !errors.Is(err, work.ErrConfig) || len(key) > 6 && strings.Contains(err.Error(), string(key)[6:]) {
			t.Errorf("%v", err)
		}
		r := request(rec.url)
		r.Keys = []Key{key}
		o := send(t, s, r)
		wantClass(t, o, work.Invalid, 0)
		if len(key) > 6 && strings.Contains(o.Message, string(key)[6:]) {
			t.Errorf("the message quotes the key: %s", o.Message)
		}
	}
	if n := rec.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestParseKey(t *testing.T) {
	if k, err := ParseKey(secret, ""); err != nil || k != secret {
		t.Error(err)
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	var b bytes.Buffer
	r := Request{Keys: []Key{secret}}
	fmt.Fprintf(&b, "%v %+v %#v %s %q", r.Keys, r.Keys, r.Keys, r.Keys[0], r.Keys[0])
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "key", r.Keys[0], "keys", r.Keys)
	if strings.Contains(b.String(), "MfKQ9r8") {
		t.Error(b.String())
	}
}

// A header that cannot be sent is a fault of the configuration: nothing is connected,
// and the value, which is a secret, is not repeated.
func TestHeadersThatCannotBeSent(t *testing.T) {
	rec := receive(t, func(c net.Conn, _ seen) bool { return say(c, ok) })
	s := newSender(t, loopback())
	for name, value := range map[string]string{
		"X-A": "s3cret\r\nX-Evil: 1", "X-B": "s3cret\n", "X-C": "s3cret\x00", "X Bad": "s3cret", "": "s3cret", "X-Ü": "s3cret", "X:Y": "s3cret",
		"Idempotency-Key": "s3cret", "x-idempotency-key": "s3cret", "webhook-id": "s3cret", "X-WEBHOOK-Attempt": "s3cret", "User-Agent": "s3cret",
		"Host": "s3cret", "content-length": "53", "Transfer-Encoding": "chunked", "Connection": "close", "proxy-authorization": "s3cret", "Expect": "100-continue",
	} {
		r := request(rec.url)
		r.Headers = map[string]string{name: value}
		o := send(t, s, r)
		wantClass(t, o, work.Invalid, 0)
		if strings.Contains(o.Message, "s3cret") {
			t.Errorf("the message quotes the value: %s", o.Message)
		}
	}
	r := request(rec.url)
	r.Headers = map[string]string{"X-A": "1", "x-a": "2"}
	wantClass(t, send(t, s, r), work.Invalid, 0)
	if n := rec.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	r.Headers = map[string]string{"content-type": "application/cloudevents+json"}
	wantClass(t, send(t, s, r), work.OK, 200)
	if got := rec.seen()[0].header["Content-Type"]; fmt.Sprint(got) != "[application/cloudevents+json]" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestCheckHeaders(t *testing.T) {
	if err := CheckHeaders([]string{"Authorization", "X-Tenant", "Content-Type", "x-api-key"}); err != nil {
		t.Error(err)
	}
	for _, names := range [][]string{{"X Bad"}, {"X-A", "x-a"}, {"Webhook-Signature"}, {"Content-Length"}, {""}} {
		if err := CheckHeaders(names); err == nil {
			t.Errorf("%q passed", names)
		}
	}
}

// A receiver that dribbles its head does not hold the place beyond the time limit, and
// what it has sent so far is no answer.
func TestTimeoutCoversTheHead(t *testing.T) {
	done := make(chan struct{})
	rec := receive(t, func(c net.Conn, _ seen) bool {
		say(c, "HTTP/1.1 200 OK\r\nX-Slow: ")
		<-done
		return false
	})
	r := request(rec.url)
	r.Timeout = 50 * time.Millisecond
	o := send(t, newSender(t, loopback()), r)
	close(done)
	wantClass(t, o, work.Timeout, 0)
	if o.Message != "no answer within 50ms" {
		t.Error(o.Message)
	}
}

func TestDeadlineAndStop(t *testing.T) {
	arrived, done := make(chan struct{}, 2), make(chan struct{})
	rec := receive(t, func(net.Conn, seen) bool {
		arrived <- struct{}{}
		<-done
		return false
	})
	s := newSender(t, loopback())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	wantClass(t, s.Send(ctx, request(rec.url)), work.Timeout, 0)
	<-arrived

	ctx, cancel = context.WithCancel(context.Background())
	go func() { <-arrived; cancel() }()
	o := s.Send(ctx, request(rec.url))
	wantClass(t, o, work.Lost, 0)
	if !strings.Contains(o.Message, "effect is unknown") {
		t.Error(o.Message)
	}
	o = s.Send(ctx, request(rec.url))
	wantClass(t, o, work.Lost, 0)
	if !strings.Contains(o.Message, "before the request was sent") {
		t.Error(o.Message)
	}
	close(done)
}
