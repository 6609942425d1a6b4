package checker_test

import (
	"slices"
	"strings"
	"time"

	"example.com/whctl/internal/checker"
)

// seenPlant changes what the receiver saw of one attempt.
func seenPlant(kind string, id, attempt int, name string, change func(*checker.Seen)) plant {
	p := only(kind, id, name, "")
	p.log = func(seen []checker.Seen) []checker.Seen {
		for i := range seen {
			if seen[i].DeliveryID == deliveryID(id) && seen[i].Attempt == attempt {
				change(&seen[i])
			}
		}
		return seen
	}
	return p
}

// withSQL is p with a change to the tables, too.
func withSQL(p plant, sql string) plant {
	p.sql = sql
	return p
}

func postPlants() []plant {
	stranger := seenPlant("post_without_attempt", 1, 0, "never claimed", nil)
	stranger.log = func(seen []checker.Seen) []checker.Seen {
		return append(seen, try{id: 1, generation: 1, number: 1, posted: 5, left: 6, answering: 200}.seen())
	}
	other := seenPlant("post_without_attempt", 99, 0, "no such delivery", nil)
	other.log = func(seen []checker.Seen) []checker.Seen {
		return append(seen, try{id: 99, generation: 1, number: 1, posted: 5, left: 6}.seen())
	}
	twice := seenPlant("post_twice", 4, 0, "resent", nil)
	twice.log = func(seen []checker.Seen) []checker.Seen {
		i := slices.IndexFunc(seen, func(s checker.Seen) bool { return s.DeliveryID == deliveryID(4) && s.Attempt == 2 })
		again := seen[i]
		again.Started, again.Finished = again.Finished, again.Finished.Add(time.Second)
		return append(seen, again)
	}
	unseen := seenPlant("answer_without_post", 4, 0, "nothing came", nil)
	unseen.log = func(seen []checker.Seen) []checker.Seen {
		return slices.DeleteFunc(seen, func(s checker.Seen) bool { return s.DeliveryID == deliveryID(4) && s.Attempt == 2 })
	}
	return []plant{
		stranger, other, twice, unseen,
		seenPlant("post_without_attempt", 6, 1, "hostile id", func(s *checker.Seen) { s.AttemptID = "' \xff" }).also("answer_without_post"),
		seenPlant("post_number", 6, 1, "number", func(s *checker.Seen) { s.Attempt = 2 }),
		seenPlant("post_number", 6, 1, "generation", func(s *checker.Seen) { s.Generation = 2 }),
		seenPlant("post_body", 4, 2, "other bytes", func(s *checker.Seen) { s.BodySHA256 = strings.Repeat("0", 64) }),
		seenPlant("post_overlap", 4, 1, "answered after the next began", func(s *checker.Seen) { s.Finished = at(300) }),
		seenPlant("post_overlap", 4, 1, "still open", func(s *checker.Seen) { s.Finished = time.Time{} }),
		withSQL(seenPlant("post_overlap", 3, 2, "beside an open attempt", func(*checker.Seen) {}), `
			DELETE FROM whctl.attempts WHERE delivery_id = 3; UPDATE whctl.deliveries SET attempts = 1 WHERE id = 3`).
			also("post_without_attempt", "post_number", "class_without_attempt"),
		withSQL(seenPlant("post_within_lease", 12, 1, "claimed too soon", func(*checker.Seen) {}), `
			UPDATE whctl.attempts SET started_at = started_at - interval '15 s' WHERE delivery_id = 12 AND attempt = 2`),
		withSQL(seenPlant("post_after_deadline", 12, 2, "by a lost attempt", func(*checker.Seen) {}), `
			UPDATE whctl.envelopes SET not_after = '2026-01-02 03:06:00+00' WHERE id = 12`),
		seenPlant("answer_differs", 4, 2, "500 was answered", func(s *checker.Seen) { s.Status = 500 }),
		seenPlant("answer_differs", 4, 2, "nothing was answered", func(s *checker.Seen) { s.Status = 0 }),
	}
}

// also is p with further kinds that cannot but be broken with it.
func (p plant) also(kinds ...string) plant { return with(p, kinds...) }
