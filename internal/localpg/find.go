package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNotInstalled says that no Postgres server was found on this machine.
var ErrNotInstalled = errors.New("no Postgres server found")

// binEnv names the folder of Postgres' programs and goes before all else.
const binEnv = "WHCTL_PG_BIN"

// debianBins is where Debian and Ubuntu put them, outside of PATH.
const debianBins = "/usr/lib/postgresql/*/bin"

// findBinaries is the folder with initdb and postgres: $WHCTL_PG_BIN, else PATH, else
// the newest of Debian's.
func findBinaries() (string, error) {
	return finder{dir: os.Getenv(binEnv), path: os.Getenv("PATH"), glob: debianBins}.find()
}

type finder struct {
	dir  string // the folder that was asked for; "" if none
	path string // a PATH
	glob string // the last places to look at, …/VERSION/bin
}

func (f finder) find() (string, error) {
	if f.dir != "" {
		if dir, ok := programs(f.dir); ok {
			return dir, nil
		}
		return "", fmt.Errorf("%w: %s is %q, which lacks initdb or postgres", ErrNotInstalled, binEnv, f.dir)
	}
	for _, dir := range filepath.SplitList(f.path) {
		if found, ok := programs(dir); ok {
			return found, nil
		}
	}
	dirs, err := filepath.Glob(f.glob)
	if err != nil {
		return "", fmt.Errorf("look for postgres: %w", err)
	}
	slices.SortFunc(dirs, func(a, b string) int { return versionOf(b) - versionOf(a) })
	for _, dir := range dirs {
		if found, ok := programs(dir); ok {
			return found, nil
		}
	}
	return "", fmt.Errorf("%w: looked on PATH and in %s; `make postgres` installs it, %s names another folder",
		ErrNotInstalled, f.glob, binEnv)
}

// programs follows links: a link to initdb alone tells where its neighbours are.
func programs(dir string) (string, bool) {
	initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
	if err != nil {
		return "", false
	}
	initdb, err = filepath.Abs(initdb)
	if err != nil {
		return "", false
	}
	dir = filepath.Dir(initdb)
	for _, name := range []string{initdb, filepath.Join(dir, "postgres")} {
		info, err := os.Stat(name)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return "", false
		}
	}
	return dir, true
}

// versionOf reads 15 out of …/15/bin, so that 9 does not sort above 15.
func versionOf(bin string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	if err != nil {
		return 0 // an odd name goes last
	}
	return n
}
