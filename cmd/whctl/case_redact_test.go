package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// What the rules of the configuration name is not kept of any answer, whoever said it
// first.
func TestAnswersAreRedacted(t *testing.T) {
	b := newBench(t)
	defer b.check()
	b.configure(settings + "redact: [\"$.student.*\", \"$..email\"]\n")
	b.receiver("r", func(w http.ResponseWriter, _ *http.Request, _ *testbed.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"error":"no seat","student":{"name":"Jane"},"teacher":{"email":"t@school.example"}}`)
	})
	id := b.due("r", 1)[0]
	b.once()
	if got := b.attempt(id, "excerpt"); got != `{"error":"no seat","student":{"name":"[redacted]"},"teacher":{"email":"[redacted]"}}` {
		t.Error(got)
	}
	b.configure(settings + "redact: [\"$.student.*\", \"$..[\"]\n")
	if res := b.must(78, "deliver", "--once"); !strings.Contains(res.Stderr, `redact`) || !strings.Contains(res.Stderr, `at position 5`) {
		t.Error(res.Stderr)
	}
}
