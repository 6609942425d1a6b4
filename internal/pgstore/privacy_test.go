package pgstore_test

import (
	"strings"
	"testing"

	"github.com/lib/pq"

	"example.com/whctl/internal/testbed"
)

// What whctl.enqueue refuses it refuses in its own words: the table's checks would quote
// the row, and the server's log would keep the payload.
func TestRefusalsDoNotQuoteThePayload(t *testing.T) {
	d := testbed.DB(t)
	d.Destination(t, "r", "https://r.example/")
	for _, bad := range []string{
		`event_type => ''`, `event_type => NULL`, `event_type => repeat('x', 257)`, `event_version => ''`, `event_version => repeat('x', 257)`,
		`tenant => repeat('x', 257)`, `subject => repeat('x', 1025)`, `event_id => repeat('x', 513)`, `delivery_id => 'a b'`, `delivery_id => ''`,
		`event_at => 'infinity'`, `event_at => '-infinity'`, `not_before => 'infinity'`, `not_after => '10000-01-01'`, `payload => repeat('x', 300000)::bytea`,
	} {
		args := []string{bad}
		for name, value := range map[string]string{"destination": `'r'`, "event_type": `'t'`, "subject": `'s'`, "payload": `'{"email": "grace@example.org"}'`} {
			if !strings.HasPrefix(bad, name+" ") {
				args = append(args, name+" => "+value)
			}
		}
		_, err := d.Admin.ExecContext(t.Context(), `SELECT whctl.enqueue(`+strings.Join(args, ", ")+`)`)
		refusal := pq.As(err)
		if refusal == nil {
			t.Errorf("%s: enqueued, %v", bad, err)
			continue
		}
		if !strings.HasPrefix(refusal.Message, "whctl.enqueue: ") || strings.Contains(refusal.Detail, "grace") || strings.Contains(refusal.Detail, "67726163") {
			t.Errorf("%s: %q, detail %q", bad, refusal.Message, refusal.Detail)
		}
	}
}
