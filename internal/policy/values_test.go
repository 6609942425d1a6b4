package policy_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

func TestParseStatusSet(t *testing.T) {
	tests := []struct {
		words  []string
		want   string // String
		in     []int
		out    []int
		errors []string
	}{
		{words: nil, want: "", out: []int{0, 200, 404, 500}},
		{words: []string{"408", "425", "429", "5xx"}, want: "408, 425, 429, 5xx", in: []int{408, 500, 511, 599}, out: []int{409, 499, 600, -500, 1012, math.MaxInt, math.MinInt}},
		{words: []string{"5XX", " 503 ", "503"}, want: "5xx", in: []int{503}},
		{words: []string{"599", "300", "4xx"}, want: "300, 4xx, 599", in: []int{300, 451, 599}, out: []int{301, 598}},
		{words: []string{"2xx", "503"}, errors: []string{`"2xx" is no status`}},
		{words: []string{"200", "6xx"}, errors: []string{`"200" is no status`, `"6xx" is no status`}},
		{words: []string{""}, errors: []string{`"" is no status`}},
		{words: []string{"xx"}, errors: []string{`"xx"`}},
		{words: []string{"+50"}, errors: []string{`"+50"`}},
		{words: []string{"0503"}, errors: []string{`"0503"`}},
		{words: []string{"1xx"}, errors: []string{`"1xx"`}},
		{words: []string{"600"}, errors: []string{`"600"`}},
		{words: []string{"5x"}, errors: []string{`"5x"`}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.words, ","), func(t *testing.T) {
			got, err := policy.ParseStatusSet(tt.words)
			for _, want := range tt.errors {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			if len(tt.errors) > 0 {
				if (got != policy.StatusSet{}) {
					t.Errorf("a set beside the error: %s", got)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
			for _, status := range tt.in {
				if !got.Contains(status) {
					t.Errorf("%d is missing", status)
				}
			}
			for _, status := range tt.out {
				if got.Contains(status) {
					t.Errorf("%d is in", status)
				}
			}
		})
	}
}

func TestStatusSetReadsItsOwnWords(t *testing.T) {
	words := []string{"3xx", "4xx", "5xx"}
	for s := 300; s < 600; s += 7 {
		words = append(words, time.Duration(s).String()[:3])
	}
	rapid.Check(t, func(t *rapid.T) {
		set, err := policy.ParseStatusSet(rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "words"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := policy.ParseStatusSet(set.Words())
		if err != nil || again != set || !slices.Equal(again.Words(), set.Words()) {
			t.Fatalf("%v: %q became %q", err, set, again)
		}
	})
}

func TestParseRate(t *testing.T) {
	good := map[string]policy.Rate{
		"50/s": {N: 50, Per: time.Second}, "600/m": {N: 600, Per: time.Minute}, "10/h": {N: 10, Per: time.Hour},
		"1000000/s": {N: 1_000_000, Per: time.Second}, "unlimited": {},
	}
	for text, want := range good {
		got, err := policy.ParseRate(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "50", "50/", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "50/d", "50/s/s", "50 /s", "50/S", "1000001/s", "99999999999999999999/s"} {
		if got, err := policy.ParseRate(text); err == nil || got != (policy.Rate{}) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if got := (policy.Rate{N: 3, Per: time.Millisecond}).String(); got != "3/1ms" {
		t.Errorf("an odd rate: %s", got)
	}
}

func TestDefaultIsValid(t *testing.T) {
	p := policy.Default()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if p.MaxAttempts != 8 || p.Rate != (policy.Rate{}) || p.RetryStatus.String() != "408, 425, 429, 5xx" || p.Name != "default" {
		t.Errorf("%+v", p)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*policy.Policy)
		want  []string // empty: valid
	}{
		{
			"lease too short", func(p *policy.Policy) { p.Lease, p.Timeout = 2*time.Second, 5*time.Second },
			[]string{"lease: 2s does not exceed timeout 5s + write_margin 2s (a lease must cover one request and the write after it)"},
		},
		{"lease just equal", func(p *policy.Policy) { p.Lease = 12 * time.Second }, []string{"lease: 12s does not exceed timeout 10s + write_margin 2s"}},
		{"lease just enough", func(p *policy.Policy) { p.Lease = 12*time.Second + 1 }, nil},
		{
			"huge values", func(p *policy.Policy) {
				p.Lease, p.Timeout, p.WriteMargin = math.MaxInt64, math.MaxInt64, math.MaxInt64
			},
			[]string{"timeout: ", "lease: 2562047h47m16.854775807s is out of bounds", "lease: 2562047h47m16.854775807s does not exceed"},
		},
		{
			"smallest values", func(p *policy.Policy) {
				p.Lease, p.Timeout, p.WriteMargin = math.MinInt64, math.MinInt64, math.MinInt64
			},
			[]string{"timeout: ", "write_margin: ", "lease: "},
		},
		{"zero times", func(p *policy.Policy) { p.Timeout, p.WriteMargin = 0, 0 }, []string{"timeout: 0s is out of bounds", "write_margin: 0s is out of bounds"}},
		{"no attempts", func(p *policy.Policy) { p.MaxAttempts = 0 }, []string{"max_attempts: 0 is out of bounds (want 1 to 1000)"}},
		{"too many attempts", func(p *policy.Policy) { p.MaxAttempts = 1001 }, []string{"max_attempts: 1001"}},
		{"cap below base", func(p *policy.Policy) { p.Backoff.Cap = time.Millisecond }, []string{"backoff.cap: 1ms is less than base 1s"}},
		{"no base", func(p *policy.Policy) { p.Backoff.Base = 0 }, []string{"backoff.base: 0s"}},
		{"fixed", func(p *policy.Policy) { p.Backoff = policy.Backoff{Kind: policy.Fixed, Delay: time.Second} }, nil},
		{"fixed without delay", func(p *policy.Policy) { p.Backoff = policy.Backoff{Kind: policy.Fixed} }, []string{"backoff.delay: 0s"}},
		{"schedule", func(p *policy.Policy) {
			p.Backoff = policy.Backoff{Kind: policy.Schedule, Schedule: []time.Duration{1}}
		}, nil},
		{"schedule without entries", func(p *policy.Policy) { p.Backoff = policy.Backoff{Kind: policy.Schedule} }, []string{"backoff.schedule: 0 is out of bounds"}},
		{
			"schedule with a zero", func(p *policy.Policy) {
				p.Backoff = policy.Backoff{Kind: policy.Schedule, Schedule: []time.Duration{1, 0}}
			},
			[]string{"backoff.schedule: entry 2, 0s, is out of bounds"},
		},
		{"odd backoff", func(p *policy.Policy) { p.Backoff.Kind = "lunar" }, []string{`backoff.type: "lunar" is no kind of backoff (want exponential, fixed or schedule)`}},
		{"jitter below", func(p *policy.Policy) { p.Backoff.Jitter = -0.1 }, []string{"backoff.jitter: -0.1 is out of bounds"}},
		{"jitter above", func(p *policy.Policy) { p.Backoff.Jitter = 1.1 }, []string{"backoff.jitter: 1.1"}},
		{"jitter no number", func(p *policy.Policy) { p.Backoff.Jitter = math.NaN() }, []string{"backoff.jitter: NaN"}},
		{"Retry-After ignored", func(p *policy.Policy) { p.RetryAfterMax = 0 }, nil},
		{"Retry-After negative", func(p *policy.Policy) { p.RetryAfterMax = -1 }, []string{"retry_after_max: -1ns"}},
		{"none in flight", func(p *policy.Policy) { p.MaxInFlight = 0 }, []string{"max_in_flight: 0"}},
		{"rate", func(p *policy.Policy) { p.Rate = policy.Rate{N: 1, Per: time.Hour} }, nil},
		{"rate without a unit", func(p *policy.Policy) { p.Rate = policy.Rate{N: 1} }, []string{"rate: 1/0s is no rate"}},
		{"rate of nothing", func(p *policy.Policy) { p.Rate = policy.Rate{Per: time.Second} }, []string{"rate: 0/s is no rate"}},
		{"circuit off", func(p *policy.Policy) { p.Circuit = policy.Circuit{} }, nil},
		{"circuit without rest", func(p *policy.Policy) { p.Circuit.OpenFor = 0 }, []string{"circuit.open_for: 0s"}},
		{"circuit that shrinks", func(p *policy.Policy) { p.Circuit.OpenMax = time.Second }, []string{"circuit.open_max: 1s is less than open_for 30s"}},
		{"circuit negative", func(p *policy.Policy) { p.Circuit.Failures = -1 }, []string{"circuit.failures: -1"}},
		{"raw", func(p *policy.Policy) { p.Body = work.BodyRaw }, nil},
		{"no body", func(p *policy.Policy) { p.Body = work.BodyUnset }, []string{`body: "" is no kind of body (want envelope or raw)`}},
		{"evidence", func(p *policy.Policy) { p.SuccessBodyMax = -1 }, []string{"success_body_max: -1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := policy.Default()
			tt.spoil(&p)
			err := p.Validate()
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
			var field *policy.FieldError
			if err != nil && !errors.As(err, &field) {
				t.Errorf("%T is no FieldError", err)
			}
		})
	}
}

// What passes Validate waits a positive time after every attempt of its budget.
func TestValidPoliciesWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Default()
		duration := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(1, int64(policy.MaxWait)).Draw(t, "ns"))
		})
		p.Backoff = policy.Backoff{
			Kind:     rapid.SampledFrom([]policy.BackoffKind{policy.Exponential, policy.Fixed, policy.Schedule}).Draw(t, "kind"),
			Base:     duration.Draw(t, "base"),
			Cap:      policy.MaxWait,
			Delay:    duration.Draw(t, "delay"),
			Schedule: rapid.SliceOfN(duration, 1, 5).Draw(t, "schedule"),
			Jitter:   rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if got := p.Backoff.Wait(rapid.Int().Draw(t, "n"), 0); got <= 0 {
			t.Fatalf("wait of %s", got)
		}
	})
}
