package policy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

func still() float64 { return 0 }

// statusOutcome is the outcome of an answer with that status.
func statusOutcome(status int) work.Outcome {
	return work.Outcome{Class: work.ClassOfStatus(status), Status: status}
}

func TestDecideByStatus(t *testing.T) {
	verdicts := map[policy.Verdict][]int{
		policy.Deliver: {200, 201, 202, 203, 204, 206, 226, 299},
		policy.Retry:   {408, 425, 429, 500, 501, 502, 503, 504, 507, 511, 520, 521, 522, 524, 527, 530, 598, 599},
		policy.Die:     {400, 401, 403, 404, 405, 409, 410, 413, 415, 421, 422, 423, 431, 451, 499, 300, 301, 302, 303, 304, 307, 308, 399},
	}
	for want, statuses := range verdicts {
		for _, status := range statuses {
			got := policy.Default().Decide(statusOutcome(status), 1, still)
			if got.Verdict != want {
				t.Errorf("%d: %s, want %s", status, got.Verdict, want)
			}
			if want == policy.Die && got.Reason != work.ReasonPermanent {
				t.Errorf("%d: reason %q", status, got.Reason)
			}
			if (got.Delay != 0) != (want == policy.Retry) {
				t.Errorf("%d: %s after %s", status, got.Verdict, got.Delay)
			}
		}
	}
}

// What the table of classes promises, which the README repeats, is what becomes of a
// delivery by default.
func TestTheTableOfClasses(t *testing.T) {
	statuses := map[work.Class][]int{
		work.OK: {200, 299}, work.Protocol: {0, 99, 999}, work.Redirect: {301, 308}, work.Unauthorized: {401, 403}, work.RateLimited: {429},
		work.Rejected: {400, 404, 451}, work.Unavailable: {408, 425, 500, 599},
	}
	words := map[policy.Verdict]string{policy.Deliver: "delivered", policy.Retry: "retry", policy.Die: "dead"}
	for _, c := range work.ClassMeanings() {
		all := statuses[c.Class]
		if all == nil {
			all = []int{0}
		}
		for _, status := range all {
			got := policy.Default().Decide(work.Outcome{Class: c.Class, Status: status}, 1, still)
			word, known := words[got.Verdict]
			if !known || !strings.HasPrefix(c.Then, word) || status >= 100 && status < 600 && work.ClassOfStatus(status) != c.Class {
				t.Errorf("%s with %d: %s, the table says %q", c.Class, status, got.Verdict, c.Then)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	retry, dead := policy.Retry, policy.Die
	tests := []struct {
		name    string
		o       work.Outcome
		attempt int
		want    policy.Decision
	}{
		{"delivered", statusOutcome(204), 8, policy.Decision{Verdict: policy.Deliver, Why: "204, attempt 8 of 8: delivered"}},
		{"retried", statusOutcome(503), 3, policy.Decision{Verdict: retry, Delay: 4 * time.Second, Why: "503, attempt 3 of 8: again in 4s"}},
		{"seventh", statusOutcome(500), 7, policy.Decision{Verdict: retry, Delay: 64 * time.Second, Why: "500, attempt 7 of 8: again in 1m4s"}},
		{"eighth", statusOutcome(500), 8, policy.Decision{Verdict: dead, Reason: work.ReasonExhausted, Why: "500, attempt 8 of 8: dead, the last attempt is spent"}},
		{"beyond", statusOutcome(500), 12, policy.Decision{Verdict: dead, Reason: work.ReasonExhausted, Why: "500, attempt 12 of 8: dead, the last attempt is spent"}},
		{"permanent", statusOutcome(404), 1, policy.Decision{Verdict: dead, Reason: work.ReasonPermanent, Why: "404, attempt 1 of 8: dead, 404 is not retried"}},
		{"permanent at the end", statusOutcome(410), 8, policy.Decision{Verdict: dead, Reason: work.ReasonPermanent, Why: "410, attempt 8 of 8: dead, 410 is not retried"}},
		{"blocked", work.Outcome{Class: work.Blocked}, 1, policy.Decision{Verdict: dead, Reason: work.ReasonBlocked, Why: "blocked, attempt 1 of 8: dead, the address is refused"}},
		{"invalid", work.Outcome{Class: work.Invalid}, 1, policy.Decision{Verdict: dead, Reason: work.ReasonInvalid, Why: "invalid, attempt 1 of 8: dead, the request cannot be sent"}},
		{"lost", work.Outcome{Class: work.Lost}, 7, policy.Decision{Verdict: retry, Why: "lost, attempt 7 of 8: due again at once"}},
		{"lost at the end", work.Outcome{Class: work.Lost}, 8, policy.Decision{Verdict: dead, Reason: work.ReasonLost, Why: "lost, attempt 8 of 8: dead, the effect of the last attempt is unknown"}},
		{"timeout", work.Outcome{Class: work.Timeout}, 1, policy.Decision{Verdict: retry, Delay: time.Second, Why: "timeout, attempt 1 of 8: again in 1s"}},
		{"timeout at the end", work.Outcome{Class: work.Timeout}, 8, policy.Decision{Verdict: dead, Reason: work.ReasonExhausted, Why: "timeout, attempt 8 of 8: dead, the last attempt is spent"}},
		{"a name that resolves inside", work.Outcome{Class: work.BlockedName}, 1, policy.Decision{Verdict: retry, Delay: time.Second, Why: "blocked_name, attempt 1 of 8: again in 1s"}},
		{"a status that HTTP does not know", statusOutcome(999), 1, policy.Decision{Verdict: retry, Delay: time.Second, Why: "protocol 999, attempt 1 of 8: again in 1s"}},
		{"an answer without its status", work.Outcome{Class: work.Rejected}, 1, policy.Decision{Verdict: retry, Delay: time.Second, Why: "rejected, attempt 1 of 8: again in 1s"}},
		{"a class from elsewhere", work.Outcome{Class: "odd\n", Status: 503}, 1, policy.Decision{Verdict: retry, Delay: time.Second, Why: `unknown class "odd\n", attempt 1 of 8: again in 1s`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := policy.Default().Decide(tt.o, tt.attempt, still); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestTransportFailuresAreRetried(t *testing.T) {
	p := policy.Default()
	p.RetryStatus = policy.StatusSet{} // plays no part here
	for _, class := range []work.Class{work.Timeout, work.DNS, work.Connect, work.TLS, work.Reset, work.Protocol, work.BlockedName} {
		if got := p.Decide(work.Outcome{Class: class, RetryAfter: time.Hour}, 1, still); got.Verdict != policy.Retry || got.Delay != time.Second {
			t.Errorf("%s: %+v", class, got)
		}
	}
}

func TestStatusMappingIsConfiguration(t *testing.T) {
	p := policy.Default()
	set, err := policy.ParseStatusSet([]string{"409", "3xx"})
	if err != nil {
		t.Fatal(err)
	}
	p.RetryStatus = set
	for status, want := range map[int]policy.Verdict{409: policy.Retry, 302: policy.Retry, 503: policy.Die, 429: policy.Die, 200: policy.Deliver} {
		if got := p.Decide(statusOutcome(status), 1, still); got.Verdict != want {
			t.Errorf("%d: %s, want %s", status, got.Verdict, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	ceiling, base := 24*time.Hour, 30*time.Second
	tests := []struct {
		name   string
		status int
		asked  time.Duration
		want   time.Duration
		why    string
	}{
		{"taken as it is", 429, 2 * time.Minute, 2 * time.Minute, "again in 2m0s, as the receiver asked"},
		{"shorter than the backoff", 503, time.Second, time.Second, "again in 1s, as the receiver asked"},
		{"on 408", 408, 2 * time.Minute, 2 * time.Minute, "as the receiver asked"},
		{"at the ceiling", 429, ceiling, ceiling, "as the receiver asked"},
		{"above the ceiling", 429, math.MaxInt64, ceiling, "again in 24h0m0s, the receiver asked for 2562047h47m16s"},
		{"none", 429, 0, base, "again in 30s"},
		{"negative", 429, -5 * time.Second, base, "again in 30s"},
		{"the smallest", 429, math.MinInt64, base, "again in 30s"},
	}
	p := policy.Default()
	p.RetryAfterMax, p.Backoff.Base = ceiling, base
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := statusOutcome(tt.status)
			o.RetryAfter = tt.asked
			got := p.Decide(o, 1, still)
			if got.Verdict != policy.Retry || got.Delay != tt.want || !strings.HasSuffix(got.Why, tt.why) {
				t.Errorf("got %+v, want %s, %q", got, tt.want, tt.why)
			}
		})
	}

	t.Run("not on a permanent answer", func(t *testing.T) {
		if got := p.Decide(work.Outcome{Class: work.Rejected, Status: 404, RetryAfter: time.Hour}, 1, still); got.Verdict != policy.Die {
			t.Errorf("%+v", got)
		}
	})
	t.Run("without jitter", func(t *testing.T) {
		o := work.Outcome{Class: work.RateLimited, Status: 429, RetryAfter: time.Hour}
		if got := p.Decide(o, 1, func() float64 { return 0.99 }); got.Delay != time.Hour {
			t.Errorf("%+v", got)
		}
	})
	t.Run("cut, but not to earlier than the backoff", func(t *testing.T) {
		slow := p
		slow.RetryAfterMax = time.Hour
		slow.Backoff = policy.Backoff{Kind: policy.Fixed, Delay: 5 * time.Hour}
		o := work.Outcome{Class: work.RateLimited, Status: 429, RetryAfter: 9 * time.Hour}
		if got := slow.Decide(o, 1, still); got.Delay != 5*time.Hour {
			t.Errorf("%+v", got)
		}
	})
	t.Run("ignored where the policy bounds it to nothing", func(t *testing.T) {
		deaf := p
		deaf.RetryAfterMax = 0
		if got := deaf.Decide(work.Outcome{Class: work.RateLimited, Status: 429, RetryAfter: time.Hour}, 1, still); got.Delay != base {
			t.Errorf("%+v", got)
		}
	})
}

func outcomes() *rapid.Generator[work.Outcome] {
	return rapid.Custom(func(t *rapid.T) work.Outcome {
		return work.Outcome{
			Class:      rapid.OneOf(rapid.SampledFrom(work.Classes()), rapid.Custom(func(t *rapid.T) work.Class { return work.Class(rapid.String().Draw(t, "name")) })).Draw(t, "class"),
			Status:     rapid.OneOf(rapid.Just(0), rapid.IntRange(100, 999), rapid.Int()).Draw(t, "status"),
			RetryAfter: time.Duration(rapid.Int64().Draw(t, "retry after")),
			Message:    rapid.String().Draw(t, "message"),
		}
	})
}

// Whatever comes in: one of three verdicts, a reason exactly where one is due, a delay
// only on a retry and inside its bounds, one plain line, and an end to every budget.
func TestDecisionsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Default()
		p.MaxAttempts = rapid.IntRange(1, 50).Draw(t, "max attempts")
		o, attempt := outcomes().Draw(t, "outcome"), rapid.IntRange(1, 100).Draw(t, "attempt")
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		got := p.Decide(o, attempt, func() float64 { return random })
		if got != p.Decide(o, attempt, func() float64 { return random }) {
			t.Fatal("the same input gave another decision")
		}
		switch got.Verdict {
		case policy.Deliver:
			if o.Class != work.OK || got.Reason != work.NoReason || got.Delay != 0 {
				t.Fatalf("%+v", got)
			}
		case policy.Retry:
			bound := max(p.RetryAfterMax, p.Backoff.Wait(attempt, 1))
			if attempt >= p.MaxAttempts || got.Reason != work.NoReason || got.Delay < 0 || got.Delay > bound {
				t.Fatalf("%+v", got)
			}
			if (got.Delay == 0) != (o.Class == work.Lost) {
				t.Fatalf("a wait of %s after %s", got.Delay, o.Class)
			}
		case policy.Die:
			reasons := map[work.Reason]bool{work.ReasonPermanent: true, work.ReasonExhausted: true, work.ReasonLost: true, work.ReasonBlocked: true, work.ReasonInvalid: true}
			if !reasons[got.Reason] || got.Delay != 0 {
				t.Fatalf("%+v", got)
			}
			if (got.Reason == work.ReasonExhausted || got.Reason == work.ReasonLost) && attempt < p.MaxAttempts {
				t.Fatalf("budget called spent at attempt %d of %d", attempt, p.MaxAttempts)
			}
		default:
			t.Fatalf("verdict %q", got.Verdict)
		}
		if strings.ContainsFunc(got.Why, func(r rune) bool { return !unicode.IsPrint(r) }) || got.Why == "" {
			t.Fatalf("why: %q", got.Why)
		}
	})
}

// A retryable failure ends in death at the last attempt of the budget, never before.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Default()
		p.MaxAttempts = rapid.IntRange(1, 60).Draw(t, "max attempts")
		fails := rapid.SliceOfN(rapid.SampledFrom([]work.Outcome{
			statusOutcome(503), statusOutcome(429), {Class: work.Timeout}, {Class: work.Lost}, {Class: work.BlockedName},
		}), p.MaxAttempts, p.MaxAttempts).Draw(t, "failures")
		for i, o := range fails {
			got := p.Decide(o, i+1, still)
			want := policy.Decision{Verdict: policy.Retry}
			if i+1 == p.MaxAttempts {
				want = policy.Decision{Verdict: policy.Die, Reason: work.ReasonExhausted}
				if o.Class == work.Lost {
					want.Reason = work.ReasonLost
				}
			}
			if got.Verdict != want.Verdict || got.Reason != want.Reason {
				t.Fatalf("attempt %d of %d: %+v", i+1, p.MaxAttempts, got)
			}
		}
	})
}

func FuzzDecide(f *testing.F) {
	f.Add("unavailable", 503, int64(time.Hour), 3, 0.5)
	f.Add("ok", 200, int64(0), 1, 0.0)
	f.Add("protocol", -99, int64(-1), -1, math.Inf(1))
	f.Fuzz(func(t *testing.T, class string, status int, retryAfter int64, attempt int, random float64) {
		o := work.Outcome{Class: work.Class(class), Status: status, RetryAfter: time.Duration(retryAfter)}
		got := policy.Default().Decide(o, attempt, func() float64 { return random })
		if got.Delay < 0 || strings.ContainsAny(got.Why, "\n\r\x1b\x00") {
			t.Errorf("%+v", got)
		}
	})
}

func ExamplePolicy_Decide() {
	p := policy.Default()
	for _, status := range []int{200, 404, 503} {
		d := p.Decide(work.Outcome{Class: work.ClassOfStatus(status), Status: status}, 3, func() float64 { return 0.5 })
		fmt.Println(d.Why)
	}
	// Output:
	// 200, attempt 3 of 8: delivered
	// 404, attempt 3 of 8: dead, 404 is not retried
	// 503, attempt 3 of 8: again in 4.4s
}
