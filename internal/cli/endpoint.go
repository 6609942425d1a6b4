package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	live      []httpsend.Key
	signature work.Signature
	missing   error
}

// newEndpoints reads every configured key. Those that are wrong, or empty, are named
// before anything is claimed; one that is not there holds back only the destinations that
// sign with it.
func (a *app) newEndpoints(c *config.Config, places int) (*endpoints, error) {
	sender, err := a.newSender(c, places)
	if err != nil {
		return nil, err
	}
	e := &endpoints{config: c, sender: sender, resolve: a.resolver(), keys: make(map[string]signingKey)}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(c.Keys)) {
		e.keys[name], err = e.signingKey(name, c.Keys[name])
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		sender.Close()
		return nil, err
	}
	return e, nil
}

// lookAround is endpoints that are only looked at: nothing can be sent with them, and a key
// that is wrong counts as missing.
func (a *app) lookAround(c *config.Config) *endpoints {
	e := &endpoints{config: c, resolve: a.resolver(), keys: make(map[string]signingKey)}
	for name, k := range c.Keys {
		key, err := e.signingKey(name, k)
		if err != nil {
			key.missing = err
		}
		e.keys[name] = key
	}
	return e
}

func (e *endpoints) signingKey(name string, k config.Key) (signingKey, error) {
	out := signingKey{signature: k.Signature}
	for _, ref := range []work.Reference{k.Current, k.Previous} {
		if ref == (work.Reference{}) {
			continue
		}
		secret, err := e.resolve.Value(ref)
		if errors.Is(err, config.ErrEmpty) {
			return out, fmt.Errorf("key %q: %w", name, err)
		}
		if err != nil {
			out.missing = fmt.Errorf("key %q: %w", name, err)
			continue
		}
		key, err := httpsend.ParseKey(secret, k.Signature.Type)
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
	p, err := e.policyOf(d)
	if err != nil {
		return deliver.Endpoint{}, err
	}
	key, err := e.keyOf(d)
	if err != nil {
		return deliver.Endpoint{}, err
	}
	headers, err := e.headersOf(d, key)
	if err != nil {
		return deliver.Endpoint{}, err
	}
	every := requestTo(d, p, key, headers)
	return deliver.Endpoint{Policy: p, Send: func(ctx context.Context, c work.Claimed, body []byte, timeout time.Duration) work.Outcome {
		r := every
		r.DeliveryID, r.AttemptID, r.Attempt, r.Generation = c.Envelope.DeliveryID, c.AttemptID, c.Attempt, c.Generation
		r.Body, r.Timeout = body, timeout
		return e.sender.Send(ctx, r)
	}}, nil
}

// requestTo is what all requests to d have in common.
func requestTo(d work.Destination, p policy.Policy, key signingKey, headers map[string]string) httpsend.Request {
	return httpsend.Request{
		URL: d.URL, Headers: headers, Keys: key.live, Signature: key.signature, Timeout: p.Timeout, SuccessBodyMax: p.SuccessBodyMax,
	}
}

func (e *endpoints) policyOf(d work.Destination) (policy.Policy, error) {
	p, ok := e.config.Policies[d.Policy]
	if !ok {
		return p, fmt.Errorf("policy %q is not configured", d.Policy)
	}
	return p, nil
}

// keyOf is the key that d signs with; of a destination without one it has no values.
func (e *endpoints) keyOf(d work.Destination) (signingKey, error) {
	key, ok := e.keys[d.Key]
	if d.Key != "" && !ok {
		return key, fmt.Errorf("key %q is not configured", d.Key)
	}
	if key.missing != nil { // it may have come since
		again, err := e.signingKey(d.Key, e.config.Keys[d.Key])
		if err != nil {
			return again, err
		}
		e.keys[d.Key], key = again, again
	}
	return key, key.missing
}

func (e *endpoints) headersOf(d work.Destination, key signingKey) (map[string]string, error) {
	if twice := setTwice(d, key.signature); len(twice) > 0 {
		return nil, fmt.Errorf("header %q is set by the signature of key %q as well", twice[0], d.Key)
	}
	headers := make(map[string]string, len(d.Headers))
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		value, err := e.resolve.Value(d.Headers[name])
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		headers[name] = value
	}
	return headers, nil
}

// resolver turns references into the values of secrets.
func (a *app) resolver() config.Resolver { return config.Resolver{LookupEnv: a.io.LookupEnv} }
