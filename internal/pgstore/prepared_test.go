package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// fakeLink notes what is said on it.
type fakeLink struct {
	link
	pid      int64
	beginErr error
	stmtErr  error
	said     []string
}

func (f *fakeLink) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	f.said = append(f.said, query)
	if f.beginErr != nil && strings.HasPrefix(query, "BEGIN") {
		return nil, f.beginErr
	}
	return &fakeRows{pid: f.pid}, nil
}

func (f *fakeLink) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	f.said = append(f.said, "PREPARE "+query)
	return &fakeStatement{f: f}, nil
}

func (f *fakeLink) Commit() error   { f.said = append(f.said, "COMMIT"); return nil }
func (f *fakeLink) Rollback() error { f.said = append(f.said, "ROLLBACK"); return nil }
func (f *fakeLink) IsValid() bool   { return true }

type fakeStatement struct {
	conversation
	f *fakeLink
}

func (s *fakeStatement) Close() error {
	s.f.said = append(s.f.said, "CLOSE")
	return nil
}

func (s *fakeStatement) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	s.f.said = append(s.f.said, "BIND")
	return &fakeRows{}, s.f.stmtErr
}

type fakeRows struct {
	pid  int64
	read bool
}

func (r *fakeRows) Columns() []string { return []string{"pid"} }
func (r *fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	dest[0] = r.pid
	return nil
}

var oneArg = []driver.NamedValue{{Ordinal: 1, Value: int64(1)}}

// say runs one transaction with one statement.
func say(t *testing.T, c *session, query string) error {
	t.Helper()
	tx, err := c.BeginTx(withSettings(t.Context(), "SET LOCAL jit = off"), driver.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.QueryContext(t.Context(), query, oneArg)
	if err == nil {
		err = rows.Close()
	}
	if committed := tx.Commit(); committed != nil {
		t.Fatal(committed)
	}
	return err
}

func heard(f *fakeLink) []string {
	said := slices.DeleteFunc(f.said, func(s string) bool { return strings.HasPrefix(s, "BEGIN") || s == "COMMIT" })
	f.said = nil
	return said
}

func expect(t *testing.T, f *fakeLink, want ...string) {
	t.Helper()
	if got := heard(f); !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

// preparing is a session that has prepared Q, and what it speaks to, which has forgotten
// that.
func preparing(t *testing.T) (*fakeLink, *session) {
	t.Helper()
	f := &fakeLink{pid: 7}
	c := &session{link: f, greeted: 7, plans: new(plans)}
	for range 2 {
		if err := say(t, c, "Q"); err != nil {
			t.Fatal(err)
		}
	}
	heard(f)
	return f, c
}

func TestPreparesTheSecondTime(t *testing.T) {
	f := &fakeLink{pid: 7}
	c := &session{link: f, greeted: 7, plans: new(plans)}
	for range 3 {
		if err := say(t, c, "Q"); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, f, "Q", "PREPARE Q", "BIND", "BIND")
	c.said["Q"].made = time.Now().Add(-planAge)
	if err := say(t, c, "Q"); err != nil {
		t.Fatal(err)
	}
	expect(t, f, "CLOSE", "PREPARE Q", "BIND")
}

// Statements stay text in a transaction that another process serves, whichever did in
// the one before, and where nobody knows who greeted.
func TestPreparesOnlyWithWhoGreeted(t *testing.T) {
	f, c := preparing(t)
	f.pid = 8
	if err := say(t, c, "Q"); err != nil {
		t.Fatal(err)
	}
	expect(t, f, "Q")
	unknown := &session{link: f, plans: new(plans)}
	for range 3 {
		if err := say(t, unknown, "Q"); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, f, "Q", "Q", "Q")
}

// Outside a transaction of the store, as for a migration's steps, nothing is prepared.
func TestPreparesNothingOutside(t *testing.T) {
	f, c := preparing(t)
	rows, err := c.QueryContext(t.Context(), "Q", oneArg)
	if err != nil {
		t.Fatal(err)
	}
	_ = rows.Close()
	expect(t, f, "Q")
}

func TestDoubtEndsPreparing(t *testing.T) {
	for _, code := range []pqerror.Code{"26000", "42P05", "08P01", "0A000"} {
		f, all := &fakeLink{pid: 7}, new(plans)
		c := &session{link: f, greeted: 7, plans: all}
		_ = say(t, c, "Q")
		f.stmtErr = &pq.Error{Code: code}
		if err := say(t, c, "Q"); !errors.Is(err, errPrepared) || pq.As(err, code) == nil {
			t.Errorf("%s: error %v", code, err)
		}
		heard(f)
		other := &session{link: f, greeted: 7, plans: all}
		for range 3 {
			_ = say(t, other, "Q")
		}
		expect(t, f, "Q", "Q", "Q")
	}
	f, all := &fakeLink{pid: 7}, new(plans)
	c := &session{link: f, greeted: 7, plans: all}
	_ = say(t, c, "Q")
	f.stmtErr = &pq.Error{Code: "40001"}
	if err := say(t, c, "Q"); errors.Is(err, errPrepared) || all.off.Load() {
		t.Errorf("a lost race was taken for a refusal: %v", err)
	}
}

// What is left of a transaction that did not begin, or was given up, is not used again.
func TestSpoiltSession(t *testing.T) {
	f := &fakeLink{pid: 7, beginErr: errors.New("no")}
	c := &session{link: f, greeted: 7, plans: new(plans)}
	if _, err := c.BeginTx(withSettings(t.Context(), "SET LOCAL jit = off"), driver.TxOptions{}); err == nil {
		t.Error("begun")
	}
	if c.IsValid() || f.said[len(f.said)-1] != "ROLLBACK" {
		t.Errorf("valid %t after a failed beginning; said %q", c.IsValid(), f.said)
	}

	f.beginErr = nil
	c = &session{link: f, greeted: 7, plans: new(plans)}
	ctx, cancel := context.WithCancel(withSettings(t.Context(), "SET LOCAL jit = off"))
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := tx.Rollback(); err != nil || c.IsValid() {
		t.Errorf("valid %t after a transaction that was given up, error %v", c.IsValid(), err)
	}
}
