package localpg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// install puts made-up programs into dir.
func install(t *testing.T, dir string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	glob := filepath.Join(root, "lib/*/bin")
	install(t, filepath.Join(root, "lib/9.6/bin"), "initdb", "postgres")
	install(t, filepath.Join(root, "lib/9/bin"), "initdb", "postgres")
	newest := install(t, filepath.Join(root, "lib/15/bin"), "initdb", "postgres")
	install(t, filepath.Join(root, "lib/17/bin"), "psql") // a client only
	own := install(t, filepath.Join(root, "own"), "initdb", "postgres")
	half := install(t, filepath.Join(root, "half"), "initdb")
	linked := install(t, filepath.Join(root, "linked"))
	if err := os.Symlink(filepath.Join(newest, "initdb"), filepath.Join(linked, "initdb")); err != nil {
		t.Fatal(err)
	}
	list := func(dirs ...string) string { return strings.Join(dirs, string(os.PathListSeparator)) }

	for name, c := range map[string]struct {
		in   finder
		want string
	}{
		"asked for":          {finder{dir: own, path: linked, glob: glob}, own},
		"PATH":               {finder{path: list(root, own), glob: glob}, own},
		"PATH by a link":     {finder{path: linked, glob: "none"}, newest},
		"PATH has only half": {finder{path: half, glob: glob}, newest},
		"newest of Debian's": {finder{glob: glob}, newest},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.in.find()
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestFindTellsWhatIsMissing(t *testing.T) {
	half := install(t, t.TempDir(), "initdb")
	for name, c := range map[string]struct {
		in   finder
		want string
	}{
		"nowhere":             {finder{path: half, glob: "none/*/bin"}, "make postgres"},
		"asked for, not here": {finder{dir: half, path: half, glob: "none/*/bin"}, "WHCTL_PG_BIN"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.in.find()
			if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to name %s", err, c.want)
			}
		})
	}
}

func TestStartWithoutBinaries(t *testing.T) {
	t.Setenv("WHCTL_PG_BIN", t.TempDir())
	if _, err := Start(t.Context(), Options{}); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("got %v", err)
	}
}
