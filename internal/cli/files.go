package cli

import (
	"fmt"
	"syscall"

	"example.com/whctl/internal/work"
)

const (
	// filesAPlace is how many descriptors a place may take: its own connection, and two
	// idle ones that wait for the next request to their hosts (httpsend).
	filesAPlace = 3
	// filesBeside is for the database, the standard streams, name servers, and idle
	// connections that are kept however few the places are.
	filesBeside = 96
)

// placesFor is how many of the wanted places the process' limit of open files has room
// for. Beyond it connections fail that are no fault of their receivers. The error wraps
// work.ErrConfig.
func placesFor(wanted int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return wanted, nil //nolint:nilerr // a system without such a limit has room
	}
	return placesWithin(limit.Cur, wanted)
}

func placesWithin(files uint64, wanted int) (int, error) {
	if files < filesBeside+filesAPlace {
		return 0, fmt.Errorf("%w: at most %d files may be open (ulimit -n): want at least %d", work.ErrConfig, files, filesBeside+filesAPlace)
	}
	room := (files - filesBeside) / filesAPlace
	if uint64(wanted) <= room {
		return wanted, nil
	}
	return int(room), nil
}
