package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// statement is how SQL begins; the house writes its keywords upper-case. Comments before
// it do not hide it.
var statement = regexp.MustCompile(
	`^(?:\s|--[^\n]*\n|/\*(?s:.*?)\*/)*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|TRUNCATE|COPY|MERGE)\s`)

// CheckSource looks for SQL and for clocks in one file. The name is the file's path from
// the module's root, with slashes.
func CheckSource(name string, source []byte) ([]Violation, error) {
	if isTest(name) {
		return nil, nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var found []Violation
	add := func(at token.Pos, what string) {
		found = append(found, Violation{Where: fmt.Sprintf("%s:%d", name, files.Position(at).Line), What: what})
	}
	clock, ticks := timePackage(file), false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if isSQL(n) && !maySQL(name) {
				add(n.Pos(), "has SQL, which is for pgstore")
			}
		case *ast.SelectorExpr:
			if readsClock(n, clock) {
				ticks = true
				if what := clockBroken(name); what != "" {
					add(n.Pos(), what)
				}
			}
		}
		return true
	})
	if _, listed := clocks[name]; listed && !ticks {
		add(file.Package, "is listed for reading the clock and does not")
	}
	return found, nil
}

func isSQL(lit *ast.BasicLit) bool {
	if lit.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(lit.Value)
	return err == nil && statement.MatchString(text)
}

func maySQL(name string) bool {
	return slices.ContainsFunc(sqlFiles, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// timePackage is the name under which the file knows the package time; "" if it does not.
func timePackage(file *ast.File) string {
	for _, i := range file.Imports {
		if i.Path.Value != `"time"` {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return "time"
	}
	return ""
}

func readsClock(sel *ast.SelectorExpr, clock string) bool {
	of, ok := sel.X.(*ast.Ident)
	return ok && clock != "" && of.Name == clock && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name)
}

// clockBroken is "" where reading the clock is lawful.
func clockBroken(name string) string {
	switch floor, ok := rooms[path.Dir(name)]; {
	case !ok || floor >= wiring:
		return ""
	case floor == ground:
		return "reads the clock, and decisions have none"
	case clocks[name] == "":
		return "reads the clock below the command tree; if only to measure how long something takes, list it with its reason"
	default:
		return ""
	}
}

// MissingFiles are the listed readers of the clock that are not among the files, in order.
func MissingFiles(files []string) []Violation {
	var missing []Violation
	for name := range clocks {
		if !slices.Contains(files, name) {
			missing = append(missing, Violation{Where: name, What: "is listed for reading the clock and does not exist"})
		}
	}
	slices.SortFunc(missing, func(a, b Violation) int { return strings.Compare(a.Where, b.Where) })
	return missing
}
