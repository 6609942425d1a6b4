package testbed

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// poolerSettings is PgBouncer in transaction mode with nothing that helps: prepared
// statements are not tracked, sessions are not reset. Clients log in as role app
// whatever they say.
const poolerSettings = `[databases]
%[1]s = host=%[2]s port=%[3]s dbname=%[1]s user=%[4]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[5]d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %[6]d
max_client_conn = 200
server_reset_query =
`

// Pool is a pooler in front of one database.
type Pool struct {
	URL string // of the database, through the pooler
	*Process
}

// Pooler starts PgBouncer in front of d with at most size connections to it. It ends
// with the test.
func Pooler(t testing.TB, d *Database, size int) *Pool {
	t.Helper()
	path, err := findPooler()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		t.Fatalf("database URL: %v", err)
	}
	for range 5 {
		// PgBouncer takes no port 0. Somebody else may take the free one first: again.
		l := listen(t, "")
		port := l.Addr().(*net.TCPAddr).Port // what a TCP listener has
		_ = l.Close()                        // nobody has connected
		settings := fmt.Sprintf(poolerSettings, d.Name, u.Hostname(), u.Port(), appRole, port, size)
		config := filepath.Join(bench.dir, bench.names.next("pgbouncer_")+".ini")
		if err := os.WriteFile(config, []byte(settings), 0o644); err != nil { // read under another account, and no secret is in it
			t.Fatal(err)
		}
		p := startPooler(t, path, config)
		if p.says(p.err, "process up") {
			u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			return &Pool{URL: u.String(), Process: p}
		}
		if !strings.Contains(p.Stderr(), "in use") {
			t.Fatalf("pgbouncer does not come up:\n%s", p.Stderr())
		}
	}
	t.Fatal("pgbouncer found no free port")
	return nil
}

// startPooler runs PgBouncer, which refuses to be root, as nobody then.
func startPooler(t testing.TB, path, config string) *Process {
	t.Helper()
	cmd := exec.Command(path, config) //nolint:noctx // the test's end kills it
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH")}
	if os.Geteuid() == 0 {
		id, err := unprivileged()
		if err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: id}
	}
	return start(t, cmd)
}

func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("pgbouncer must not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// findPooler looks where Debian puts it, too: /usr/sbin is on root's PATH alone.
func findPooler() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("this test needs PgBouncer: apt-get install pgbouncer")
}
