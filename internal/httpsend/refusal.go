package httpsend

import (
	"fmt"

	"example.com/whctl/internal/work"
)

// refusal says why nothing may be sent. Its text names what to change and quotes
// neither a path or query nor a header's value. As an error it is work.ErrConfig.
type refusal struct {
	class work.Class // Invalid, Blocked or BlockedName
	text  string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return work.ErrConfig }

func invalid(format string, args ...any) *refusal {
	return &refusal{class: work.Invalid, text: fmt.Sprintf(format, args...)}
}

func blocked(format string, args ...any) *refusal {
	return &refusal{class: work.Blocked, text: fmt.Sprintf(format, args...)}
}

func (r *refusal) outcome() work.Outcome {
	return work.Outcome{Class: r.class, Message: clean(r.text, maxMessage, false)}
}
