package dlq

import (
	"fmt"
	"strings"
	"time"

	"example.com/whctl/internal/work"
)

// cursorTime keeps the digits that the database keeps.
const cursorTime = "2006-01-02T15:04:05.000000Z"

// Cursor writes the place of a row so that the list can go on behind it: its time of
// death and its delivery id, as JSON output shows them, with a comma between. It stays
// good when the row itself is redriven, delivered or swept.
func Cursor(p work.LetterPlace) string {
	return p.DiedAt.UTC().Format(cursorTime) + "," + p.DeliveryID
}

// ParseCursor reads a cursor; "" is before the first row. Its errors wrap work.ErrUsage.
func ParseCursor(s string) (work.LetterPlace, error) {
	if s == "" {
		return work.LetterPlace{}, nil
	}
	died, id, _ := strings.Cut(s, ",")
	at, err := time.Parse(time.RFC3339Nano, died)
	if err == nil {
		err = work.CheckDeliveryID(id)
	}
	if err != nil || at.Year() < 1 || at.Year() > 9999 || at.IsZero() {
		return work.LetterPlace{}, fmt.Errorf("%w: --after %q is no cursor: want a row's died_at, a comma and its delivery_id", work.ErrUsage, s)
	}
	return work.LetterPlace{DiedAt: at, DeliveryID: id}, nil
}
