package peer

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Key is the signing key of all runs, as the environment of whctl has it.
const Key = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

// timeout of one request, as in whctl's default policy.
const timeout = 10 * time.Second

// Body is as long as whctl's envelope around the same payload.
func Body(id, subject string, payload []byte) []byte {
	b := make([]byte, 0, len(payload)+256)
	b = append(b, `{"eventId":"","deliveryId":"`...)
	b = append(b, id...)
	b = append(b, `","type":"bench.happened","version":"1","subject":"`...)
	b = append(b, subject...)
	b = append(b, `","tenant":"","occurredAt":"2026-01-31T10:00:00.000000Z","data":`...)
	b = append(b, payload...)
	return append(b, '}')
}

// poster sends signed requests and keeps its connections.
type poster struct {
	transport *http.Transport
	hashes    sync.Pool
}

func newPoster(inFlight int) *poster {
	key, err := base64.StdEncoding.DecodeString(Key[len("whsec_"):])
	if err != nil {
		panic(err) // it is ours
	}
	return &poster{
		transport: &http.Transport{MaxIdleConnsPerHost: inFlight, DisableCompression: true},
		hashes:    sync.Pool{New: func() any { return hmac.New(sha256.New, key) }},
	}
}

// sign makes the signature of Standard Webhooks.
func (p *poster) sign(id, at string, body []byte) string {
	h := p.hashes.Get().(hash.Hash)
	defer p.hashes.Put(h)
	h.Reset()
	_, _ = io.WriteString(h, id+"."+at+".")
	_, _ = h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(make([]byte, 0, sha256.Size)))
}

// post sends one request. Anything but 200 is an error.
func (p *poster) post(ctx context.Context, to *url.URL, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		Header: http.Header{
			"Content-Type": {"application/json"}, "User-Agent": {"whctl/dev"}, "Idempotency-Key": {id},
			"X-Webhook-Attempt-Id": {"01890a5d-ac96-774b-bcce-b302099a8057"}, "X-Webhook-Attempt": {"1"}, "X-Webhook-Generation": {"1"},
			"Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {p.sign(id, at, body)},
		},
	}).WithContext(ctx)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}
