// Command mangen writes the man pages from the real command tree, or checks that the
// ones in a folder are those that it would write:
//
//	go run ./internal/mangen -out man
//	go run ./internal/mangen -check -out man
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"example.com/whctl/internal/cli"
	"example.com/whctl/internal/console"
)

// date is printed at the foot of every page. It is fixed, so that the same tree gives
// the same pages; it moves with releases.
var date = time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC)

func main() {
	out := flag.String("out", "man", "folder of the pages")
	check := flag.Bool("check", false, "compare, write nothing; exit 1 when a page is stale")
	flag.Parse()
	if err := run(*out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "mangen:", err)
		os.Exit(1)
	}
}

func run(out string, check bool) error {
	pages, err := pages()
	if err != nil {
		return err
	}
	if check {
		return compare(out, pages)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, name := range strays(out, pages) {
		if err := os.Remove(filepath.Join(out, name)); err != nil {
			return err
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages are all pages by file name.
func pages() (map[string][]byte, error) {
	streams, _, _, _ := console.Test()
	root := cli.NewRoot(streams, "")
	root.DisableAutoGenTag = true
	pages := make(map[string][]byte)
	var walk func(cmd *cobra.Command) error
	walk = func(cmd *cobra.Command) error {
		if !cmd.IsAvailableCommand() && cmd != root || cmd.Name() == "help" {
			return nil
		}
		cmd.DisableAutoGenTag = true
		var b bytes.Buffer
		header := doc.GenManHeader{Section: "1", Source: "whctl", Manual: "whctl manual", Date: &date}
		if err := doc.GenMan(cmd, &header, &b); err != nil {
			return fmt.Errorf("page of %q: %w", cmd.CommandPath(), err)
		}
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = complete(b.Bytes())
		for _, sub := range cmd.Commands() {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return pages, walk(root)
}

// complete adds the sections that the library does not know, in front of SEE ALSO.
func complete(page []byte) []byte {
	var b strings.Builder
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range cli.Exits() {
		fmt.Fprintf(&b, ".TP\n\\fB%d\\fP\n%s\n", e.Code, roff(e.Meaning))
	}
	b.WriteString(`.SH ENVIRONMENT
.TP
\fBWHCTL_DATABASE_URL\fP, \fBWHCTL_CONFIG\fP, \fBWHCTL_OPERATOR\fP
the database, the configuration file, who acts
.TP
\fBWHCTL_POLICIES__DEFAULT__TIMEOUT\fP, ...
any configuration key: its path in upper case behind WHCTL_, with __ between levels
.TP
\fBPGHOST\fP, \fBPGUSER\fP, \fBPGSERVICE\fP, ...
what libpq reads, where no database URL is given
.SH FILES
\&./whctl.yaml, $XDG_CONFIG_HOME/whctl/whctl.yaml, /etc/whctl/whctl.yaml: the first that is there
`)
	at := bytes.Index(page, []byte(".SH SEE ALSO"))
	if at < 0 {
		at = len(page)
	}
	return slices.Concat(page[:at], []byte(b.String()), page[at:])
}

func roff(text string) string { return strings.ReplaceAll(text, "-", `\-`) }

// compare says which pages are stale.
func compare(out string, pages map[string][]byte) error {
	var stale []string
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !bytes.Equal(got, want) {
			stale = append(stale, name)
		}
	}
	stale = append(stale, strays(out, pages)...)
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return fmt.Errorf("stale pages in %s: %s (run: make man)", out, strings.Join(stale, ", "))
}

// strays are pages of commands that are no more.
func strays(out string, pages map[string][]byte) []string {
	found, err := filepath.Glob(filepath.Join(out, "*.1"))
	if err != nil {
		return nil // only a malformed pattern
	}
	var names []string
	for _, path := range found {
		if _, ok := pages[filepath.Base(path)]; !ok {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}
