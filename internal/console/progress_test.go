package console_test

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/whctl/internal/console"
)

const clear = "\r\x1b[2K"

// The tests run in a bubble of testing/synctest: time.Sleep there moves a clock of
// its own on and waits for nothing.

func onTerminal() (*console.Streams, *screen) {
	s, _, _, _ := console.Test()
	stderr := new(screen)
	s.Err, s.ErrTTY = stderr, true
	return s, stderr
}

// screen is what was drawn so far. A test looks at it while the progress' own timer
// may draw at the very same instant.
type screen struct {
	mu    sync.Mutex
	drawn bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn.String()
}

func (s *screen) Len() int { return len(s.String()) }

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		p := s.Progress("sending\x1b", 100)
		for range 9 {
			time.Sleep(100 * time.Millisecond)
			p.Add(1)
		}
		if stderr.Len() > 0 {
			t.Fatalf("drawn within the first second: %q", stderr)
		}
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			p.Add(1)
		}
		frames := strings.Split(stderr.String(), "\r")
		last := frames[len(frames)-1]
		if want := regexp.MustCompile(`^sending\\x1b +39% \[=+>\.+\] \(39/100, 10 it/s\) \[3s:6s\]`); !want.MatchString(last) {
			t.Errorf("last drawn %q, want bar, count, rate, elapsed and left time", last)
		}
		p.Done()
		if !strings.HasSuffix(stderr.String(), clear) {
			t.Errorf("the line was not cleared: %q", stderr)
		}
		after := stderr.Len()
		p.Done()
		time.Sleep(time.Second)
		p.Add(1)
		time.Sleep(5 * time.Second)
		if stderr.Len() != after {
			t.Errorf("written after Done: %q", stderr.String()[after:])
		}
	})
}

func TestProgressOfShortWorkIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		p := s.Progress("sending", 2)
		p.Add(1)
		time.Sleep(900 * time.Millisecond)
		p.Add(1)
		p.Done()
		time.Sleep(5 * time.Second)
		if stderr.Len() > 0 {
			t.Errorf("drawn: %q", stderr)
		}
	})
}

// Time goes on where nothing gets done, and no end is foretold from nothing.
func TestProgressOfSlowWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		p := s.Progress("sweeping", 10)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if want := "\rsweeping …\x1b[K"; stderr.String() != want {
			t.Errorf("drawn %q, want %q", stderr, want)
		}
		p.Add(1)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		frames := strings.Split(stderr.String(), "\r")
		if last := frames[len(frames)-1]; !regexp.MustCompile(`10% .*\[5s:`).MatchString(last) {
			t.Errorf("last drawn %q, want the elapsed time to go on", last)
		}
		p.Done()
	})
}

func TestProgressOfUnknownSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		p := s.Progress("reading", 0)
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			p.Add(5)
		}
		frames := strings.Split(stderr.String(), "\r")
		if last := frames[len(frames)-1]; !regexp.MustCompile(`reading \((9\d\d|1000), 100 it/s\) \[(9|10)s\]`).MatchString(last) {
			t.Errorf("last drawn %q, want count and rate", last)
		}
		p.Done()
	})
}

// A terminal over a slow line is not flooded, and nothing moves backwards.
func TestProgressDrawsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		p := s.Progress("sending", 10_000)
		for range 2000 {
			time.Sleep(time.Millisecond)
			p.Add(1)
			p.Add(0)
			p.Add(-1)
		}
		if n := strings.Count(stderr.String(), "\r"); n < 8 || n > 13 {
			t.Errorf("drawn %d times in a second", n)
		}
		frames := strings.Split(stderr.String(), "\r")
		if last := frames[len(frames)-1]; !regexp.MustCompile(`\((19\d\d|2000)/10000,`).MatchString(last) {
			t.Errorf("last drawn %q, want about 2000", last)
		}
		p.Done()
	})
}

func TestProgressBeyondTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		p := s.Progress("sending", 3)
		for range 10 {
			time.Sleep(500 * time.Millisecond)
			p.Add(1)
		}
		p.Done()
		if !strings.HasSuffix(stderr.String(), clear) {
			t.Errorf("the line was not cleared: %q", stderr)
		}
	})
}

func TestProgressNeedsATerminal(t *testing.T) {
	s, _, _, stderr := console.Test()
	if p := s.Progress("x", 10); p != nil {
		t.Error("progress without a terminal")
	}
	s.ErrTTY, s.LookupEnv = true, env(map[string]string{"TERM": "dumb"})
	p := s.Progress("x", 10)
	if p != nil {
		t.Error("progress on a dumb terminal")
	}
	p.Add(1)
	p.Done() // nil is fine
	if stderr.Len() > 0 {
		t.Errorf("written %q", stderr)
	}
}

// A log line wipes the bar, stands on a line of its own, and the bar comes back.
func TestLogLineOverProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		s.LookupEnv = env(map[string]string{"NO_COLOR": "1"})
		l, err := s.Logger("text", "info")
		if err != nil {
			t.Fatal(err)
		}
		p := s.Progress("sending", 100)
		time.Sleep(2 * time.Second)
		p.Add(1)
		l.Info("one")
		l.Info("two")
		time.Sleep(1500 * time.Millisecond)
		p.Add(1)
		p.Done()
		if want := regexp.MustCompile(`(?s)sending +1% [^\n]*\r\x1b\[2K\d{4}-\S+ INF one\n\d{4}-\S+ INF two\n\rsending +1% [^\n]*\rsending +2% [^\n]*\r\x1b\[2K$`); !want.MatchString(stderr.String()) {
			t.Errorf("got %q", stderr)
		}
	})
}

func TestProgressFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stderr := onTerminal()
		l, err := s.Logger("json", "info")
		if err != nil {
			t.Fatal(err)
		}
		p := s.Progress("sending", 8*200)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 199 {
					time.Sleep(20 * time.Millisecond)
					p.Add(1)
					l.Info("sent")
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !strings.Contains(stderr.String(), "(1592/1600,") {
			t.Errorf("not everything was counted: %q", stderr.String()[stderr.Len()-200:])
		}
		p.Done()
		if got := strings.Count(stderr.String(), "\n"); got != 8*199 {
			t.Errorf("%d log lines, want %d", got, 8*199)
		}
	})
}
