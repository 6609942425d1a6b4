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
}

// One table of outcome classes serves the code and the README: it has all of them, in
// order, and no others.
func TestREADMEHasTheOutcomeClasses(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "| outcome | class | then |\n| --- | --- | --- |\n"
	for _, c := range work.ClassMeanings() {
		want += fmt.Sprintf("| %s | `%s` | %s |\n", c.Meaning, c.Class, c.Then)
	}
	if !strings.Contains(string(text), "## What becomes of an answer\n\n"+want+"\n") {
		t.Errorf("README.md, What becomes of an answer, lacks this table:\n%s", want)
	}
}
