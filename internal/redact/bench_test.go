package redact_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkApply: what a byte costs is the same in a long document and in a short one,
// whatever the rules.
func BenchmarkApply(b *testing.B) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("$..a..b[*]..c%d[-1]", i))
	}
	deep := strings.Repeat(`{"a":[{"b":[`, 200) + "1" + strings.Repeat(`]}]}`, 200)
	for name, c := range map[string]struct {
		rules []string
		part  string
	}{
		"names":       {[]string{"$..email"}, `{"email":"jane@school.example","n":1,"l":["x"]}`},
		"descendants": {[]string{"$..a..b..c"}, deep},
		"wildcards":   {[]string{"$..*..*..*..x"}, deep},
		"slices":      {[]string{"$..[1:100:3]", "$..[-5:]", "$..[::-2]"}, `[1,2,[3,4,5,6],7]`},
		"many rules":  {many, deep},
		"flat":        {[]string{"$..[-1]"}, "0"},
	} {
		for _, size := range []int{34 << 10, 1 << 20} {
			text := []byte("[" + strings.Repeat(c.part+",", size/len(c.part)) + "0]")
			for _, end := range []int{len(text), len(text) / 2} {
				b.Run(fmt.Sprintf("%s/%dKiB", name, end>>10), func(b *testing.B) {
					rs := parse(b, c.rules...)
					b.SetBytes(int64(end))
					b.ReportAllocs()
					for b.Loop() {
						rs.Apply(text[:end])
					}
				})
			}
		}
	}
}
