package gauge

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is the unit of processor time in /proc: 100 a second on every Linux.
const tick = 10 * time.Millisecond

// process is what /proc/PID/stat tells. A process that has ended, or a system without
// /proc, is all zero.
type process struct {
	pid, parent int
	own         time.Duration // its own time, in user and kernel
	reaped      time.Duration // of its children that have ended
}

func readProcess(path string) process {
	text, err := os.ReadFile(path)
	if err != nil {
		return process{}
	}
	return parseProcess(text)
}

// parseProcess: the name stands in parentheses and may hold anything, so the fields are
// counted from behind the last of them: state, parent, …
func parseProcess(text []byte) process {
	name := bytes.LastIndexByte(text, ')')
	pid, _, _ := bytes.Cut(text, []byte(" "))
	if name < 0 {
		return process{}
	}
	fields := bytes.Fields(text[name+1:])
	if len(fields) < 15 {
		return process{}
	}
	return process{
		pid: int(number(pid)), parent: int(number(fields[1])),
		own:    time.Duration(number(fields[11])+number(fields[12])) * tick,
		reaped: time.Duration(number(fields[13])+number(fields[14])) * tick,
	}
}

// number is 0 for what is none.
func number(text []byte) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func stat(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/stat" }

// own is the processor time of one process.
func own(pid int) time.Duration { return readProcess(stat(pid)).own }

// treeTries bounds how often tree reads again.
const treeTries = 100

// tree is the processor time of a process, of its children, and of those of them that
// have ended. Postgres has no grandchildren. A child that is reaped while the others are
// being read would be missed, or counted twice: then they are read again.
func tree(pid int) (sum time.Duration) {
	for range treeTries {
		before := readProcess(stat(pid))
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil || before.pid == 0 {
			return 0
		}
		sum = before.own + before.reaped
		for _, path := range all {
			if p := readProcess(path); p.parent == pid {
				sum += p.own + p.reaped
			}
		}
		if readProcess(stat(pid)).reaped == before.reaped {
			break
		}
	}
	return sum
}

// busy is what the whole machine has spent on anything but idling and waiting for disks.
func busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseBusy(text)
}

// parseBusy reads the first line: cpu user nice system idle iowait irq softirq steal …
func parseBusy(text []byte) time.Duration {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var sum int64
	for i, f := range bytes.Fields(line) {
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			sum += number(f)
		}
	}
	return time.Duration(sum) * tick
}

// PeakRSS is the largest resident size that a running process has had, in bytes. What
// the system reports of a child that has ended is of no use: it counts the parent, whose
// memory the child shares until it becomes a program of its own.
func PeakRSS(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if size, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, _, _ := bytes.Cut(bytes.TrimSpace(size), []byte(" "))
			return number(kib) << 10
		}
	}
	return 0
}
