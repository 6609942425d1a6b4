package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// folderPattern is the name of a server's folder, for os.MkdirTemp and the sweep.
const folderPattern = "whctl-pg-*"

// lockName is the file that the starter of a server holds locked as long as it lives.
const lockName = "lock"

// socketMax is the longest folder a Unix socket's address has room for: 107 bytes less
// "/.s.PGSQL.65535".
const socketMax = 107 - 15

// plain paths need no quoting in a list of socket folders.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._-]+$`)

// folder is all that one server leaves on disk.
type folder struct {
	path   string
	socket string // path, or a folder of its own where path is too long or odd
	locked *os.File
}

func (f *folder) data() string { return filepath.Join(f.path, "data") }

func (f *folder) log() string { return filepath.Join(f.path, "log") }

func newFolder(parent string, own *account) (*folder, error) {
	parent, err := parentFolder(parent, own)
	if err != nil {
		return nil, err
	}
	sweep(parent, own)
	path, err := os.MkdirTemp(parent, folderPattern)
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	f := &folder{path: path, socket: path}
	if err := f.furnish(own); err != nil {
		_ = f.remove() // the first error is the one to tell
		return nil, err
	}
	return f, nil
}

// parentFolder is where the folder is to be made: what was asked for, else the first
// temporary folder that the server's account can reach.
func parentFolder(asked string, own *account) (string, error) {
	places := []string{asked}
	if asked == "" {
		places = []string{os.TempDir(), "/tmp", "/var/tmp"}
	}
	for _, p := range places {
		p, err := filepath.Abs(p)
		if err != nil {
			return "", fmt.Errorf("make a folder: %w", err)
		}
		if own.reaches(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("no folder that user id %d can reach, tried %q", own.uid, places)
}

func (f *folder) furnish(own *account) error {
	if err := f.lock(); err != nil {
		return fmt.Errorf("lock the folder: %w", err)
	}
	if needsSocketFolder(f.path) {
		socket, err := os.MkdirTemp("/tmp", "whctl-pg-socket-")
		if err != nil {
			return fmt.Errorf("make a folder for the socket: %w", err)
		}
		f.socket = socket
	}
	return errors.Join(own.owns(f.path), own.owns(f.socket))
}

func needsSocketFolder(path string) bool { return len(path) > socketMax || !plain.MatchString(path) }

// lock takes the lock under another name first: a folder without the lock's name is
// being made and not swept.
func (f *folder) lock() error {
	young := filepath.Join(f.path, "lock.new")
	file, err := os.OpenFile(young, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.locked = file
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	return os.Rename(young, filepath.Join(f.path, lockName))
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.socket != f.path {
		err = errors.Join(err, os.RemoveAll(f.socket))
	}
	if f.locked != nil {
		err = errors.Join(err, f.locked.Close())
	}
	return err
}

// sweep removes the folders of starters that were killed: their servers are gone, but
// nobody was left to remove 40 MB. What cannot be removed waits for the next sweep.
func sweep(parent string, own *account) {
	left, err := filepath.Glob(filepath.Join(parent, folderPattern))
	if err != nil {
		return // the parent's name is no pattern; nothing depends on the sweep
	}
	for _, path := range left {
		sweepOne(path, own)
	}
}

func sweepOne(path string, own *account) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || (st.Uid != uint32(os.Geteuid()) && (own == nil || st.Uid != own.uid)) {
		return // another user's
	}
	// A link or a pipe under this name is not ours; neither is followed or waited for.
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return // still being made, or not ours
	}
	defer func() { _ = lock.Close() }()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return // its starter lives
	}
	_ = os.RemoveAll(path)
}
