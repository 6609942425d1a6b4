package httpsend

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// costly are payloads of 256 KiB, each the worst of its kind for something that looks
// for its values in an answer, and answers that quote as much of them as they can.
func costly() map[string][2]string {
	const size = 256 << 10
	list := func(one func(i int) string) string {
		var b strings.Builder
		b.WriteByte('[')
		for i := 0; b.Len() < size; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(one(i))
		}
		return b.String() + "]"
	}
	numbers := list(func(i int) string { return fmt.Sprint(10000 + i) })
	words := list(func(i int) string { return fmt.Sprintf(`{"n":"w%05d x"}`, i) })
	addresses := list(func(i int) string { return fmt.Sprintf(`"https:\/\/shop.example\/%d"`, i) })
	lengths := list(func(i int) string { return `"` + strings.Repeat("-", 3+i) + `"` })
	prefix := list(func(i int) string { return fmt.Sprintf(`"%s%d"`, strings.Repeat("a", 500), i) })
	long := `"` + strings.Repeat("a", size) + `"`
	nested := strings.Repeat(`{"a":["`, 9000) + "jane" // no JSON: all its words
	deep := strings.Repeat(`[`, 9000) + list(func(i int) string { return fmt.Sprintf(`"v%d"`, i) }) + strings.Repeat(`]`, 9000)
	return map[string][2]string{
		"distinct numbers":         {numbers, numbers},
		"distinct numbers, others": {numbers, list(func(i int) string { return fmt.Sprint(9999999 - 3*i) })},
		"objects":                  {words, words},
		"addresses":                {addresses, strings.ReplaceAll(addresses, `\/`, "/")},
		"the mark's own word":      {list(func(int) string { return `"redacted"` }), strings.Repeat("redacted [redacted] ", 2000)},
		"one word many times":      {list(func(int) string { return `"jane"` }), strings.Repeat("jane ", 8000)},
		"every length":             {lengths, strings.Repeat("-", size)},
		"the same beginning":       {prefix, strings.Repeat("a", size)},
		"one long text":            {long, strings.Repeat("a", size)},
		"broken nesting":           {nested, nested},
		"deep":                     {deep, deep[8000:]},
		"no JSON":                  {strings.Repeat("aaaa", size/4), strings.Repeat("aaaa", 5000) + " " + words},
		"no JSON, many words":      {numbers + "x", numbers},
		"no JSON, near misses":     {strings.Repeat("aaaab", size/5), list(func(i int) string { return fmt.Sprintf("aaaa%d", i) })},
	}
}

// The cost of scrubbing is bounded by what there is to read, whatever payload and answer
// agree upon: it runs after the request's time limit. This takes seconds and gigabytes,
// or is not noticed.
func TestScrubbingIsBounded(t *testing.T) {
	to := newSender(t, loopback()).targetOf("https://hooks.example/").target
	for name, c := range costly() {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{4 << 10, 34 << 10} {
				text := c[1][:min(size, len(c[1]))]
				r := request("")
				r.Body = []byte(c[0])
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				got := newScrubber(r, to).scrub(text, true)
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > 3<<20 {
					t.Errorf("%d bytes allocated for an answer of %d", n, size)
				}
				if len(got) > 4*len(text)+len(redacted) {
					t.Errorf("%d bytes became %d", len(text), len(got))
				}
			}
		})
	}
}

func BenchmarkScrub(b *testing.B) {
	to := newSender(b, loopback()).targetOf("https://hooks.example/").target
	for name, c := range costly() {
		for _, size := range []int{4 << 10, 34 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				r := request("")
				r.Body = []byte(c[0])
				text := c[1][:min(size, len(c[1]))]
				b.ReportAllocs()
				for b.Loop() {
					newScrubber(r, to).scrub(text, true)
				}
			})
		}
	}
}
