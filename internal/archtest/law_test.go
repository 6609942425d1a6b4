package archtest

import (
	"slices"
	"strings"
	"testing"
)

// at makes a package of the module; imports that begin with a dot are ours.
func at(room string, imports ...string) Package {
	return Package{ImportPath: Module + "/" + room, Name: "x", Imports: resolve(imports)}
}

// tested makes one whose external tests import.
func tested(room string, imports ...string) Package {
	return Package{ImportPath: Module + "/" + room, Name: "x", XTestImports: resolve(imports)}
}

func resolve(imports []string) []string {
	var out []string
	for _, i := range imports {
		if ours, ok := strings.CutPrefix(i, "./"); ok {
			i = Module + "/" + ours
		}
		out = append(out, i)
	}
	return out
}

func TestLawIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		p    Package
		want string
	}{
		"unknown package":              {at("internal/queue"), "no room in the floor plan"},
		"unknown package below a room": {at("internal/deliver/claims"), "no room in the floor plan"},
		"root package":                 {Package{ImportPath: Module}, "no room in the floor plan"},
		"import of an unknown package": {at("internal/cli", "./internal/queue"), "no room in the floor plan"},
		"import of the root":           {at("internal/cli", Module), "the module's root"},
		"empty name":                   {Package{ImportPath: Module + "/internal/work", Name: "types"}, "is named types"},

		"ground to adapter":     {at("internal/policy", "./internal/config"), "imports upward: internal/config"},
		"adapter to use case":   {at("internal/pgstore", "./internal/deliver"), "imports upward: internal/deliver"},
		"use case to face":      {at("internal/dlq", "./internal/render"), "imports upward: internal/render"},
		"face to wiring":        {at("internal/tui", "./internal/cli"), "imports upward: internal/cli"},
		"wiring to roof":        {at("internal/cli", "./cmd/whctl"), "is main"},
		"beside to roof":        {at("internal/mangen", "./cmd/whctl"), "is main"},
		"use case to use case":  {at("internal/deliver", "./internal/dlq"), "on its own floor"},
		"use case to adapter":   {at("internal/deliver", "./internal/pgstore"), "declare a port"},
		"adapter to adapter":    {at("internal/config", "./internal/httpsend"), "on its own floor"},
		"face to adapter":       {at("internal/tui", "./internal/pgstore"), "is a face"},
		"render to console":     {at("internal/render", "./internal/console"), "on its own floor"},
		"demo to cli":           {at("internal/demo", "./internal/cli"), "on its own floor"},
		"nouns to decisions":    {at("internal/work", "./internal/policy"), "on its own floor"},
		"cli to testbed":        {at("internal/cli", "./internal/testbed"), "beside the house"},
		"cli to localpg":        {at("internal/cli", "./internal/localpg"), "beside the house"},
		"use case to migration": {at("internal/sweep", "./migrations"), "beside the house"},
		"cli to the law":        {at("internal/cli", "./internal/archtest"), "beside the house"},
		"checker to the nouns":  {at("internal/checker", "./internal/work"), "stand alone"},
		"localpg to config":     {at("internal/localpg", "./internal/config"), "stand alone"},
		"testbed to cli":        {at("internal/testbed", "./internal/cli"), "cannot import it"},
		"testbed to a use case": {at("internal/testbed", "./internal/deliver"), "cannot import it"},

		"test reaches upward":   {tested("internal/policy", "./internal/cli"), "upward in a test"},
		"test of store upward":  {tested("internal/pgstore", "./internal/deliver"), "upward in a test"},
		"test imports mangen":   {tested("internal/cli", "./internal/mangen"), "no help for tests"},
		"test of unknown":       {tested("internal/cli", "./internal/queue"), "no room in the floor plan"},
		"in-package test":       {Package{ImportPath: Module + "/internal/work", TestImports: []string{Module + "/internal/policy/x"}}, "no room"},
		"test of work to face":  {Package{ImportPath: Module + "/internal/work", TestImports: []string{Module + "/internal/render"}}, "upward in a test"},
		"test to tablewriter":   {tested("internal/cli", "github.com/olekukonko/tablewriter/tw"), "for internal/render only"},
		"sqlx in a use case":    {at("internal/enqueue", "github.com/jmoiron/sqlx"), "imports github.com/jmoiron/sqlx"},
		"sql in the nouns":      {at("internal/work", "database/sql"), "imports database/sql"},
		"sql driver in cli":     {at("internal/cli", "database/sql/driver"), "imports database/sql/driver"},
		"pq in cli":             {at("internal/cli", "github.com/lib/pq"), "imports github.com/lib/pq"},
		"goose in cli":          {at("internal/cli", "github.com/pressly/goose/v3"), "imports github.com/pressly/goose/v3"},
		"http in the store":     {at("internal/pgstore", "net/http"), "imports net/http"},
		"httptest in cli":       {at("internal/cli", "net/http/httptest"), "imports net/http/httptest"},
		"tables in cli":         {at("internal/cli", "github.com/olekukonko/tablewriter"), "for internal/render only"},
		"the screen in console": {at("internal/console", "github.com/charmbracelet/bubbletea"), "imports github.com/charmbracelet/bubbletea"},
		"cobra in main":         {at("cmd/whctl", "github.com/spf13/cobra"), "imports github.com/spf13/cobra"},
		"cobra in the demo":     {at("internal/demo", "github.com/spf13/cobra/doc"), "imports github.com/spf13/cobra/doc"},
		"metrics in deliver":    {at("internal/deliver", "github.com/prometheus/client_golang/prometheus"), "for internal/telemetry only"},
		"durations in policy":   {at("internal/policy", "github.com/prometheus/common/model"), "imports github.com/prometheus/common/model"},
		"testing in cli":        {at("internal/cli", "testing"), "imports testing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check([]Package{at("internal/work"), c.p})
			if len(got) != 1 || !strings.Contains(got[0].What, c.want) || got[0].Where != c.p.ImportPath {
				t.Errorf("got %v, want one violation with %q", got, c.want)
			}
		})
	}
}

func TestLawIsKept(t *testing.T) {
	got := Check([]Package{
		at("cmd/whctl", "os", "./internal/cli", "./internal/console"),
		at("internal/cli", "./internal/demo", "./internal/tui", "./internal/render", "./internal/deliver", "./internal/pgstore",
			"./internal/config", "./internal/policy", "./internal/work", "github.com/spf13/cobra", "github.com/prometheus/common/model"),
		at("internal/demo", "./internal/localpg", "./internal/checker", "./internal/pgstore", "net/http", "github.com/lib/pq"),
		at("internal/tui", "./internal/render", "./internal/console", "./internal/dlq", "./internal/work", "github.com/charmbracelet/bubbletea"),
		at("internal/deliver", "./internal/policy", "./internal/work", "time"),
		at("internal/pgstore", "./internal/work", "./migrations", "github.com/jmoiron/sqlx", "database/sql"),
		at("internal/policy", "./internal/work"),
		at("internal/testbed", "./internal/localpg", "./internal/checker", "./internal/pgstore", "./migrations", "testing", "net/http"),
		at("internal/mangen", "./internal/cli", "github.com/spf13/cobra/doc"),
		at("internal/render", "github.com/olekukonko/tablewriter", "golang.org/x/net/http2/hpack", "database/sqlish"),
		tested("internal/deliver", "./internal/deliver", "./internal/testbed", "./internal/checker", "./internal/pgstore", "testing", "net/http"),
		tested("internal/mangen", "./internal/cli"),
		tested("internal/work", "./internal/localpg", "./migrations", "database/sql"),
	})
	if len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestSourcesThatBreakTheLaw(t *testing.T) {
	clock := "package x\nimport \"time\"\nvar _ = time.Now()\n"
	for name, c := range map[string]struct {
		file, source, where, what string
	}{
		"a query":                {"internal/cli/x.go", "package x\nconst q = `SELECT 1`", "internal/cli/x.go:2", "has SQL"},
		"a query on a new line":  {"internal/dlq/x.go", "package x\nconst q = `\n\tWITH a AS (x)`", "internal/dlq/x.go:2", "has SQL"},
		"a query after comments": {"internal/tui/x.go", "package x\nconst q = `\n-- who\n/* or\n what */ DELETE FROM x`", "internal/tui/x.go:2", "has SQL"},
		"in pieces":              {"internal/cli/x.go", `package x; const q = "UPDATE " + "x"`, "internal/cli/x.go:1", "has SQL"},
		"a function's argument":  {"cmd/whctl/x.go", `package x; func f(string) {}; func g() { f("INSERT INTO x") }`, "cmd/whctl/x.go:1", "has SQL"},
		"in the demo":            {"internal/demo/story.go", `package x; const q = "CREATE TABLE x ()"`, "internal/demo/story.go:1", "has SQL"},

		"clock in policy":     {"internal/policy/x.go", clock, "internal/policy/x.go:3", "decisions have none"},
		"clock in work":       {"internal/work/x.go", clock, "internal/work/x.go:3", "decisions have none"},
		"clock in deliver":    {"internal/deliver/x.go", clock, "internal/deliver/x.go:3", "below the command tree"},
		"clock in an adapter": {"internal/httpsend/x.go", clock, "internal/httpsend/x.go:3", "below the command tree"},
		"clock as a value":    {"internal/sweep/x.go", "package x\nimport \"time\"\nvar now = time.Now", "internal/sweep/x.go:3", "below"},
		"under another name":  {"internal/work/x.go", "package x\nimport t \"time\"\nvar _ = t.Since", "internal/work/x.go:3", "have none"},
		"listed in vain":      {"internal/deliver/run.go", "package x\nimport \"time\"\nvar _ time.Time", "internal/deliver/run.go:1", "and does not"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CheckSource(c.file, []byte(c.source))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].Where != c.where || !strings.Contains(got[0].What, c.what) {
				t.Errorf("got %v, want one at %s with %q", got, c.where, c.what)
			}
		})
	}
}

func TestSourcesThatKeepTheLaw(t *testing.T) {
	query := "package x\nconst q = `SELECT 1`"
	clock := "package x\nimport \"time\"\nvar _ = time.Now()\n"
	for file, source := range map[string]string{
		"internal/pgstore/x.go":     query,
		"internal/demo/receiver.go": query,
		"internal/cli/x_test.go":    query,
		"internal/cli/text.go":      "package x\nconst help = `Delete what is old. SELECT is not at its begin`\nconst one = \"SELECTED\"",
		"internal/cli/now.go":       clock,
		"internal/deliver/run.go":   clock,
		"internal/work/x_test.go":   clock,
		"internal/policy/x.go":      "package x\nimport \"time\"\nvar _ = time.Second\ntype t struct{ Now int }\nvar _ = t{}.Now\n",
	} {
		got, err := CheckSource(file, []byte(source))
		if err != nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v", file, got, err)
		}
	}
	if _, err := CheckSource("internal/cli/x.go", []byte("no Go")); err == nil {
		t.Error("a file that cannot be read passes")
	}
}

func TestListedClocksExist(t *testing.T) {
	var files []string
	for name := range clocks {
		files = append(files, name)
	}
	if got := MissingFiles(files); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == "internal/deliver/run.go" })
	if got := MissingFiles(files); len(got) != 1 || got[0].Where != "internal/deliver/run.go" {
		t.Errorf("got %v", got)
	}
}
