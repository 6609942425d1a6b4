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

type claimed = work.Claimed

var (
	errConfig  = work.ErrConfig
	errRefused = work.ErrRefused
)

// endpoints makes destinations ready for sending: their policy, and the values that
// their references stand for.
type endpoints struct {
	config  *config.Config
	sender  *httpsend.Sender
	resolve config.Resolver
	keys    map[string][]httpsend.Key
}

// newEndpoints reads every configured key, so that a wrong one is found before
// anything is claimed.
func (a *app) newEndpoints(c *config.Config, places int) (*endpoints, error) {
	sender, err := a.newSender(c, places)
	if err != nil {
		return nil, err
	}
	e := &endpoints{config: c, sender: sender, resolve: a.resolver(), keys: make(map[string][]httpsend.Key)}
	for name, k := range c.Keys {
		for _, ref := range []work.Reference{k.Current, k.Previous} {
			if ref == (work.Reference{}) {
				continue
			}
			secret, err := e.resolve.Value(ref)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", name, err)
			}
			key, err := httpsend.ParseKey(secret)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", name, err)
			}
			e.keys[name] = append(e.keys[name], key)
		}
	}
	return e, nil
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
	var keys []httpsend.Key
	if d.Key != "" {
		if keys, ok = e.keys[d.Key]; !ok {
			return deliver.Endpoint{}, fmt.Errorf("key %q is not configured", d.Key)
		}
	}
	headers := make(map[string]string, len(d.Headers))
	for name, ref := range d.Headers {
		value, err := e.resolve.Value(ref)
		if err != nil {
			return deliver.Endpoint{}, fmt.Errorf("header %q: %w", name, err)
		}
		headers[name] = value
	}
	return deliver.Endpoint{Policy: p, Send: e.send(d.URL, headers, keys, p)}, nil
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
