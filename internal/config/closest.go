package config

// Closest is the candidate that word most likely stands for; "" without candidates.
func Closest(word string, candidates []string) string {
	return closest(word[:min(len(word), 64)], candidates) // the work grows with its length
}
