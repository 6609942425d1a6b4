package main

import (
	"syscall"
	"testing"

	"example.com/whctl/internal/testbed"
)

// Neither what a session is set to nor a pooler between changes what goes.
func TestSweepWhateverTheSession(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"zone and style":    {"TimeZone": "America/New_York", "DateStyle": "German, DMY", "IntervalStyle": "sql_standard", "extra_float_digits": "0"},
		"statement_timeout": {"statement_timeout": "1s"},
		"serializable":      {"default_transaction_isolation": "serializable"},
		"pooler":            nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.retention(delivered30d + "  attempts: {version: 1, target: attempts, keep: 7d}\n")
			b.finished(250, "delivered", "40 days", 2)
			for k, v := range set {
				b.db.Set(t, k, v)
			}
			if set == nil {
				b.url = testbed.Pooler(t, b.db, 2).URL
			}
			b.must(0, "sweep", "--policy", "attempts", "--batch-size", "100", "--pause", "0s")
			b.must(0, "sweep", "--policy", "attempts", "--pause", "0s")
			if p := b.preview("--policy", "delivered"); p.Removable != 250 || *p.Attempts != 250 {
				t.Errorf("preview %+v", p)
			}
			if s := b.sweep("--policy", "delivered", "--batch-size", "100", "--pause", "0s"); s.Deleted.Deliveries != 250 || s.StoppedBy != "drained" {
				t.Errorf("swept %+v", s)
			}
			b.must(0, "sweep", "verify")
		})
	}
}

// A signal in the rest after a batch ends the run at once, with what it did, and lets go.
func TestSignalInThePauseOfASweep(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		b := &theBench{t: t, db: testbed.DB(t)}
		b.url = b.db.URL
		b.retention(delivered30d)
		b.finished(50, "delivered", "40 days", 1)
		p := b.start("sweep", "--batch-size", "20", "--pause", "1h", "--max-time", "2h", "-o", "json")
		until(t, "its first batch", func() bool { return b.left() == 30 })
		p.Signal(signal)
		r := p.Wait()
		if s := oneOf[swept](t, r.Stdout); r.Code != code || s.StoppedBy != "signal" || s.Deleted.Deliveries != 20 || *s.Remaining != 30 {
			t.Errorf("after %s: exit %d, %s %s", signal, r.Code, r.Stdout, r.Stderr)
		}
		// It has let go.
		b.must(0, "sweep", "--no-overlap", "--pause", "0s")
	}
}
