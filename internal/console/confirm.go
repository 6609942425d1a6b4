package console

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"example.com/whctl/internal/render"
	"example.com/whctl/internal/work"
)

// Confirm asks question on the terminal and tells whether the answer was yes. Enter,
// the end of the input and every other word are no. Without a terminal to ask on and
// to answer at it is work.ErrUsage, naming --yes.
func (s *Streams) Confirm(question string) (bool, error) {
	question = render.Visible(question)
	if !s.InTTY || !s.ErrTTY {
		return false, fmt.Errorf("%w: %s: there is no terminal to ask on: give --yes", work.ErrUsage, question)
	}
	if _, err := s.talk([]byte(question + " [y/N] ")); err != nil {
		return false, fmt.Errorf("ask for confirmation: %w", err)
	}
	answer, err := s.readLine()
	if err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// readLine reads up to a line end, and not a byte further: what was typed ahead
// belongs to the next question.
func (s *Streams) readLine() (string, error) {
	var line []byte
	b := make([]byte, 1)
	for {
		n, err := s.In.Read(b)
		if n == 1 && b[0] == '\n' {
			return string(line), nil
		}
		if n == 1 {
			line = append(line, b[0])
		}
		if errors.Is(err, io.EOF) {
			// Not confirmed by Enter, whatever was typed. The cursor stands behind it.
			_, err := s.talk([]byte("\n"))
			return "", err
		}
		if err != nil {
			return "", err
		}
	}
}
