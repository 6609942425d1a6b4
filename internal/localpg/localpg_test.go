//go:build linux

package localpg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// childEnv makes the test binary play a program that starts a server and is killed.
const childEnv = "WHCTL_LOCALPG_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(childEnv); ok {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask runs one query that answers with one text.
func ask(t *testing.T, address, query string) (string, error) {
	t.Helper()
	db, err := sql.Open("postgres", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	var answer string
	err = db.QueryRowContext(t.Context(), query).Scan(&answer)
	return answer, err
}

func want(t *testing.T, address, query, answer string) {
	t.Helper()
	got, err := ask(t, address, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if got != answer {
		t.Errorf("%s: got %q, want %q", query, got, answer)
	}
}

func TestStartAnswersAndStopLeavesNothing(t *testing.T) {
	dir := openDir(t)
	t.Setenv("PGDATA", "/nowhere") // one of ours; the server must not see it
	s := start(t, Options{
		Dir:      dir,
		Settings: map[string]string{"work_mem": "5MB", "application_name": `it's a \ "test"`},
		Env:      []string{"LOCALPG_MARK=here"},
	})
	env := environment(t, s.PID())
	if _, ours := env["PGDATA"]; ours || env["LOCALPG_MARK"] != "here" {
		t.Errorf("the server's environment: %v", env)
	}
	for _, address := range []string{s.URL("postgres"), s.SocketURL("postgres")} {
		want(t, address, "SHOW server_encoding", "UTF8")
		want(t, address, "SHOW timezone", "UTC")
		want(t, address, "SHOW fsync", "off")
		want(t, address, "SHOW work_mem", "5MB")
		want(t, address, "SHOW port", portOf(t, s))
	}
	want(t, s.URL("postgres"), "SELECT reset_val FROM pg_settings WHERE name = 'application_name'", `it's a \ "test"`)
	want(t, s.URL("postgres"), "SELECT current_setting('data_directory')", s.folder.data())

	pid := s.PID()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Errorf("process %d lives on", pid)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestTwoServersAtOnce(t *testing.T) {
	dir := openDir(t)
	one := start(t, Options{Dir: dir})
	two := start(t, Options{Dir: dir, Durable: true})
	if one.PID() == two.PID() || portOf(t, one) == portOf(t, two) {
		t.Fatal("they are the same server")
	}
	want(t, one.URL("postgres"), "SHOW fsync", "off")
	want(t, two.URL("postgres"), "SHOW fsync", "on")
	want(t, two.URL("postgres"), "SHOW full_page_writes", "on")
	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	// The sweep of the second start must not have touched the first, nor the end of
	// the first the second.
	want(t, two.URL("postgres"), "SHOW port", portOf(t, two))
}

// Any user of the machine reaches the TCP port; whoever is superuser there runs
// programs under the server's account.
func TestSuperuserNeedsThePasswordOverTCP(t *testing.T) {
	s := start(t, Options{})
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []*url.Userinfo{url.User("postgres"), url.UserPassword("postgres", ""), url.UserPassword("postgres", "postgres")} {
		u.User = who
		if _, err := ask(t, u.String(), "SHOW port"); err == nil {
			t.Errorf("%s came in", u)
		}
	}
	want(t, s.SocketURL("postgres"), "SELECT current_user", "postgres")
	if _, err := ask(t, s.SocketURL("postgres"), "CREATE ROLE worker LOGIN"); !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	u.User = url.User("worker")
	want(t, u.String(), "SELECT current_user", "worker")
}

// Where the folder's path is too long or needs quoting, the socket stands elsewhere.
func TestSocketFolderIsShortAndPlain(t *testing.T) {
	dir := filepath.Join(openDir(t), `with, "quotes" and spaces`, strings.Repeat("a-long-name/", 12))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Dir: dir})
	want(t, s.SocketURL("postgres"), "SHOW port", portOf(t, s))
	socket := s.folder.socket
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder %s: %v", socket, err)
	}
	for _, name := range []string{strings.Repeat("a-long-name/", 8), "a,b", `a"b`, "a b", "a'b"} {
		if dir := filepath.Join("/tmp", name); !needsSocketFolder(dir) {
			t.Errorf("%s is taken for the socket", dir)
		}
	}
	if needsSocketFolder("/tmp/whctl-pg-123456789") {
		t.Error("a short plain folder is not taken for the socket")
	}
}

// environment is what a running process was started with.
func environment(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for v := range strings.SplitSeq(string(text), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

func TestFailedStartTellsTheLogAndLeavesNothing(t *testing.T) {
	dir := openDir(t)
	_, err := Start(t.Context(), Options{Dir: dir, Settings: map[string]string{"max_connections": "many"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "max_connections": "many"`) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	dir := openDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // in the midst of initdb
	defer cancel()
	_, err := Start(ctx, Options{Dir: dir})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A port that is free when it is looked for and taken when it is bound must cost one
// more try, and the server must not be confused with the one that took it.
func TestPortTakenInBetweenIsTold(t *testing.T) {
	holder := start(t, Options{})
	s := &Server{port: holder.port}
	own, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	if s.folder, err = newFolder(openDir(t), own); err != nil {
		t.Fatal(err)
	}
	bin, err := findBinaries()
	if err != nil {
		t.Fatal(err)
	}
	if err := initCluster(t.Context(), bin, own, s.folder, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(t.Context(), bin, own, nil); !errors.Is(err, errPortTaken) {
		t.Errorf("got %v", err)
	}
	if err := s.folder.remove(); err != nil {
		t.Error(err)
	}
}

func portOf(t *testing.T, s *Server) string {
	t.Helper()
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// openDir is a temporary folder that the server's account can reach.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A server that was halted comes back at its address with what it held.
func TestHaltAndResume(t *testing.T) {
	s := start(t, Options{})
	db, err := sql.Open("postgres", s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE kept AS SELECT 'here'::text AS is"); err != nil {
		t.Fatal(err)
	}
	s.Halt()
	if _, err := ask(t, s.URL("postgres"), "SELECT 'x'"); err == nil {
		t.Error("a halted server answers")
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s.URL("postgres"), `SELECT "is" FROM kept`, "here")
}
