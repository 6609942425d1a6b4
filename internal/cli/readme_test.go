package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"example.com/whctl/internal/work"
)

// One table of exit codes serves the code, the man pages and the README.
func TestREADMEHasTheExitCodes(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range Exits() {
		if row := fmt.Sprintf("| %d | %s | %s |\n", e.Code, e.Meaning, e.Scheduler); !strings.Contains(string(text), row) {
			t.Errorf("README.md lacks the row: %s", row)
		}
	}
	for _, c := range work.Classes() {
		if !strings.Contains(string(text), "`"+string(c)+"`") {
			t.Errorf("README.md does not name the class %s", c)
		}
	}
}
