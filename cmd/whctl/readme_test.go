package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

// The crontab line of the README, as it stands, in the environment that cron gives: it
// delivers, says nothing, and ends with 0.
func TestTheCrontabLineOfTheREADME(t *testing.T) {
	b := newBench(t)
	defer b.check()
	for _, file := range []string{"../../README.md", "../../deploy/crontab"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^\* \* \* \* \* .*?(/usr/local/bin/whctl .*)$`).FindStringSubmatch(string(text))
		if line == nil || strings.Contains(line[1], "%") {
			t.Fatalf("%s has no crontab line that cron would run as it is", file)
		}
		dir := t.TempDir()
		config, err := os.ReadFile(b.config)
		if err != nil {
			t.Fatal(err)
		}
		// cron's working folder has no whctl.yaml and /etc has one; here it is the other way round.
		config = append(config, "database: {url: \""+b.url+"\"}\n"...)
		if err := os.WriteFile(filepath.Join(dir, "whctl.yaml"), config, 0o600); err != nil {
			t.Fatal(err)
		}
		name := "r" + filepath.Ext(file)
		r := b.receiver(name, nil)
		ids := b.due(name, 3)
		res := testbed.Run(t, testbed.Cmd{
			Path: "/usr/bin/env", Dir: dir,
			Args: []string{"-i", "/bin/sh", "-c", strings.Replace(line[1], "/usr/local/bin/whctl", testbed.Binary(t), 1)},
		})
		if res.Code != 0 || res.Stdout != "" || res.Stderr != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", file, res.Code, res.Stdout, res.Stderr)
		}
		b.eachOnce(ids, r)
	}
}
