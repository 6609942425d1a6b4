// Package gauge reads what a run cost (processor time and memory, from Linux' /proc),
// condenses rounds to medians, and prints them beside the bars they are held to.
//
// Not here: what is run (stage, peer and the measures themselves).
package gauge
