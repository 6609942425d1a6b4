package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is a package as go list prints it.
type listed struct {
	Package
	Dir     string
	GoFiles []string
	Module  struct{ Dir string }
}

// house is every package of the module.
func house(t *testing.T) []listed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json", Module+"/...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list found no packages")
	}
	return all
}

func TestTheHouseKeepsTheLaw(t *testing.T) {
	var packages []Package
	var files []string
	for _, p := range house(t) {
		packages = append(packages, p.Package)
		for _, file := range p.GoFiles {
			full := filepath.Join(p.Dir, file)
			name, err := filepath.Rel(p.Module.Dir, full)
			if err != nil {
				t.Fatal(err)
			}
			name = filepath.ToSlash(name)
			files = append(files, name)
			source, err := os.ReadFile(full)
			if err != nil {
				t.Fatal(err)
			}
			broken, err := CheckSource(name, source)
			if err != nil {
				t.Fatal(err)
			}
			report(t, broken)
		}
	}
	report(t, Check(packages))
	report(t, MissingFiles(files))
}

func report(t *testing.T, broken []Violation) {
	t.Helper()
	for _, v := range broken {
		t.Error(strings.TrimPrefix(v.String(), Module+"/"))
	}
}
