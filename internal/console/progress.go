package console

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"example.com/whctl/internal/render"
)

const (
	progressAfter = time.Second            // work shorter than this shows no progress
	progressEvery = 100 * time.Millisecond // least time between two drawings
	barWidth      = 30                     // columns of the bar alone; what stands beside it needs about 50
)

// Progress shows on a terminal how far a piece of work has come: bar, count, rate
// and time left. A nil Progress shows nothing, so callers need not ask.
type Progress struct {
	s     *Streams
	label string
	bar   *progressbar.ProgressBar
	start time.Time

	// guarded by s.mu
	timer  *time.Timer
	added  bool
	closed bool
}

// Progress begins to show progress on Err towards total, 0 or less for work of
// unknown size. It gives nil where Err is no terminal or one that cannot move its
// cursor. Nothing is drawn in the first second. Done must be called at the end.
func (s *Streams) Progress(label string, total int64) *Progress {
	if !s.ErrTTY || s.dumb() {
		return nil
	}
	if total <= 0 {
		total = -1
	}
	p := &Progress{s: s, label: render.Visible(label), start: time.Now()}
	width := min(barWidth, max(s.width(s.Err)-len(label)-50, 0))
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(canvas{p}),
		progressbar.OptionSetDescription(p.label),
		progressbar.OptionSetWidth(width),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(total > 0),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(progressEvery),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetSpinnerChangeInterval(0), // else it draws from a goroutine that outlives Done
	)
	p.bar.StartWithoutRender()
	s.mu.Lock()
	defer s.mu.Unlock()
	p.timer = time.AfterFunc(progressAfter, p.tick)
	return p
}

// Add tells that n more are done. It may be called from many goroutines.
func (p *Progress) Add(n int64) {
	if p == nil || n <= 0 {
		return
	}
	p.s.mu.Lock()
	p.added = true
	p.s.mu.Unlock()
	_ = p.bar.Add64(n) // fails when more is done than was foreseen; there is nothing left to show then
}

// Done ends the progress and clears its line. It may be called more than once.
func (p *Progress) Done() {
	if p == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.timer.Stop()
	_ = p.s.wipe() // a terminal that went away needs no clean line
}

// tick draws once a second, so that time goes on where nothing else does. A bar
// without any progress would foretell an end at once: the label alone stands then.
func (p *Progress) tick() {
	p.s.mu.Lock()
	if p.closed {
		p.s.mu.Unlock()
		return
	}
	p.timer = time.AfterFunc(progressAfter, p.tick)
	added := p.added
	p.s.mu.Unlock()
	switch {
	case !added:
		_, _ = fmt.Fprintf(canvas{p}, "\r%s …\x1b[K", p.label)
	case !p.bar.IsFinished():
		_ = p.bar.RenderBlank() // as in Add: a bar that cannot be drawn is no error of the work
	}
}

// canvas is what the bar draws on: Err, but nothing in the first second or after
// Done.
type canvas struct{ p *Progress }

func (c canvas) Write(b []byte) (int, error) {
	s := c.p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.p.closed || time.Since(c.p.start) < progressAfter {
		return len(b), nil
	}
	s.drawn = true
	return s.Err.Write(b)
}
