package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as. Nil is whoever runs this process.
type account struct{ uid, gid uint32 }

// serverAccount is nil for everybody but root: Postgres refuses to run as root, so
// then it runs as postgres, or as nobody where there is no such account.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("account %s: user id %q is no number", name, u.Uid)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("account %s: group id %q is no number", name, u.Gid)
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("this is root, Postgres must not run as root, and there is no account postgres or nobody")
}

// attr is how the server's programs are started: as the account, and in a session of
// their own, so that Ctrl-C on the terminal does not reach them before us.
func (a *account) attr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithStarter(attr)
	return attr
}

// owns gives a file or folder to the account.
func (a *account) owns(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// reaches tells whether the account may walk down to dir; root's own temporary
// folder is often closed to it.
func (a *account) reaches(dir string) bool {
	if a == nil {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || !a.enters(info) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

func (a *account) enters(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch {
	case st.Uid == a.uid:
		return st.Mode&0o100 != 0
	case st.Gid == a.gid:
		return st.Mode&0o010 != 0
	default:
		return st.Mode&0o001 != 0
	}
}
