package cli

import (
	"context"
	"fmt"
	"time"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/deliver"
	"example.com/whctl/internal/httpsend"
	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// endpoints makes destinations ready for sending: their policy, and the values that
// their references stand for.
type endpoints struct {
	config  *config.Config
	sender  *httpsend.Sender
	resolve config.Resolver
	keys    map[string]signingKey
}

// signingKey is a configured key, or why it is not there.
type signingKey struct {
	live    []httpsend.Key
	missing error
}

// newEndpoints reads every configured key. A wrong one is found before anything is
// claimed; one that is not there holds back only the destinations that sign with it.
func (a *app) newEndpoints(c *config.Config, places int) (*endpoints, error) {
	sender, err := a.newSender(c, places)
	if err != nil {
		return nil, err
	}
	e := &endpoints{config: c, sender: sender, resolve: a.resolver(), keys: make(map[string]signingKey)}
	for name, k := range c.Keys {
		if e.keys[name], err = e.signingKey(name, k); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *endpoints) signingKey(name string, k config.Key) (signingKey, error) {
	var out signingKey
	for _, ref := range []work.Reference{k.Current, k.Previous} {
		if ref == (work.Reference{}) {
			continue
		}
		secret, err := e.resolve.Value(ref)
		if err != nil {
			out.missing = fmt.Errorf("key %q: %w", name, err)
			continue
		}
		key, err := httpsend.ParseKey(secret)
		if err != nil {
			return out, fmt.Errorf("key %q: %w", name, err)
		}
		out.live = append(out.live, key)
	}
	return out, nil
}

// endpoint makes d ready. Its errors hold deliveries back until the configuration has
// been mended, instead of killing them.
func (e *endpoints) endpoint(d work.Destination) (deliver.Endpoint, error) {
	if d.Fault != nil {
		return deliver.Endpoint{}, d.Fault
	}
	p, ok := e.config.Policies[d.Policy]
	if !ok {
		return deliver.Endpoint{}, fmt.Errorf("policy %q is not configured", d.Policy)
	}
	key, ok := e.keys[d.Key]
	if d.Key != "" && !ok {
		return deliver.Endpoint{}, fmt.Errorf("key %q is not configured", d.Key)
	}
	if key.missing != nil {
		return deliver.Endpoint{}, key.missing
	}
	headers := make(map[string]string, len(d.Headers))
	for name, ref := range d.Headers {
		value, err := e.resolve.Value(ref)
		if err != nil {
			return deliver.Endpoint{}, fmt.Errorf("header %q: %w", name, err)
		}
		headers[name] = value
	}
	return deliver.Endpoint{Policy: p, Send: e.send(d.URL, headers, key.live, p)}, nil
}

func (e *endpoints) send(url string, headers map[string]string, keys []httpsend.Key, p policy.Policy) func(context.Context, work.Claimed, []byte, time.Duration) work.Outcome {
	return func(ctx context.Context, c work.Claimed, body []byte, timeout time.Duration) work.Outcome {
		return e.sender.Send(ctx, httpsend.Request{
			URL: url, Headers: headers, Keys: keys, DeliveryID: c.Envelope.DeliveryID, AttemptID: c.AttemptID,
			Attempt: c.Attempt, Generation: c.Generation, Body: body, Timeout: timeout, SuccessBodyMax: p.SuccessBodyMax,
		})
	}
}

// resolver turns references into the values of secrets.
func (a *app) resolver() config.Resolver { return config.Resolver{LookupEnv: a.io.LookupEnv} }
