package testbed_test

import (
	"testing"

	"github.com/lib/pq"

	"example.com/whctl/internal/testbed"
)

// The pooler gives its few connections to whoever has a transaction, so a prepared
// statement of one client meets that of another.
func TestPoolerSharesSessions(t *testing.T) {
	t.Parallel()
	db := table(t)
	pool := testbed.Pooler(t, db, 1)
	one, two := connect(t, pool.URL), connect(t, pool.URL)
	var a, b int
	if err := one.GetContext(t.Context(), &a, "SELECT pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	if err := two.GetContext(t.Context(), &b, "SELECT pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("sessions %d and %d", a, b)
	}
	if _, err := one.PreparexContext(t.Context(), "SELECT $1::integer"); err != nil { //nolint:sqlclosecheck // the connection ends
		t.Fatal(err)
	}
	_, err := two.PreparexContext(t.Context(), "SELECT $1::text") //nolint:sqlclosecheck // it fails
	if pq.As(err, "42P05") == nil {
		t.Errorf("the second client got %v", err)
	}
}
