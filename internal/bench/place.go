package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"example.com/whctl/internal/bench/stage"
)

// printPlace says where and with what it was measured.
func (l *lab) printPlace(ctx context.Context, w io.Writer) error {
	size := "full"
	if l.quick {
		size = "quick, not for quoting"
	}
	version, err := l.program.Version(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "whctl %s\n%d cores (%s), %s; %s/%s; load average at the start %s\n"+
		"PostgreSQL %s on 127.0.0.1, no TLS, durable settings; River %s; %s; GOGC=%s for all; %d rounds, %s\n\n",
		version, runtime.NumCPU(), lineOf("/proc/cpuinfo", "model name"), lineOf("/proc/meminfo", "MemTotal"),
		runtime.GOOS, runtime.GOARCH, loadAverage(), l.postgres.Version, versionOf("github.com/riverqueue/river"), runtime.Version(), stage.GCPercent, l.rounds, size)
	return err
}

// lineOf is the value of a line such as "MemTotal: 24 kB".
func lineOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range bytes.Lines(text) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "unknown"
}
