package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Seen is one POST as the receiver saw it.
type Seen struct {
	DeliveryID string // header Idempotency-Key
	AttemptID  string // header X-Webhook-Attempt-Id
	Generation int    // header X-Webhook-Generation
	Attempt    int    // header X-Webhook-Attempt
	BodySHA256 string // "" where the body was not read: it is not compared then
	Status     int    // the status answered while the client was there; 0: none
	Started    time.Time
	Finished   time.Time // the answer was about to be sent, or the client had gone; zero: still open
}

// Option tells the checker more than the tables do.
type Option func(*inputs)

// Without leaves out rules by their kind, for a case that breaks one on purpose. A
// policy with its own retry_status needs it for permanent_retryable, exhausted_final
// and retried_final.
func Without(kinds ...string) Option {
	return func(in *inputs) {
		for _, k := range kinds {
			in.without[k] = true
		}
	}
}

// MaxAttempts is the budget of a generation that every policy in use has; it turns
// on the rule over_budget.
func MaxAttempts(n int) Option { return func(in *inputs) { in.maxAttempts = n } }

// Lease is the lease that every policy in use has; it turns on the rule
// post_within_lease.
func Lease(d time.Duration) Option { return func(in *inputs) { in.lease = d } }

// CompleteLog says that every POST that was ever answered is in the log; it turns on
// the rule answer_without_post.
func CompleteLog() Option { return func(in *inputs) { in.complete = true } }

type inputs struct {
	seen        string // a JSON array
	any         bool   // there is a log
	without     map[string]bool
	maxAttempts int
	lease       time.Duration
	complete    bool
}

func input(seen []Seen, options []Option) (inputs, error) {
	in := inputs{any: len(seen) > 0, without: map[string]bool{}}
	for _, o := range options {
		o(&in)
	}
	kinds := Kinds()
	for k := range in.without {
		if !slices.Contains(kinds, k) {
			return in, fmt.Errorf("no rule is called %q", k)
		}
	}
	type post struct {
		N          int    `json:"n"`
		DeliveryID string `json:"delivery_id"`
		AttemptID  string `json:"attempt_id"`
		Generation int    `json:"generation"`
		Attempt    int    `json:"attempt"`
		Body       string `json:"body"`
		Status     int    `json:"status"`
		Started    int64  `json:"started"`  // ns since 1970: the tables' µs would round
		Finished   int64  `json:"finished"` // the same; 0: still open
	}
	posts := make([]post, 0, len(seen))
	for i, s := range seen {
		p := post{i + 1, s.DeliveryID, s.AttemptID, s.Generation, s.Attempt, s.BodySHA256, s.Status, s.Started.UnixNano(), 0}
		if !s.Finished.IsZero() {
			p.Finished = s.Finished.UnixNano()
		}
		posts = append(posts, p)
	}
	text, err := json.Marshal(posts)
	if err != nil {
		return in, fmt.Errorf("write down what was seen: %w", err)
	}
	in.seen = string(text)
	return in, nil
}
