package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Package is what the law needs to know of one, in the words of go list.
type Package struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Violation is one breach of the law.
type Violation struct {
	Where string // an import path, or a file
	What  string
}

func (v Violation) String() string { return v.Where + ": " + v.What }

// Check holds packages against the floor plan and the fences.
func Check(packages []Package) []Violation {
	var all []Violation
	for _, p := range packages {
		room := roomOf(p.ImportPath)
		for _, what := range checkPackage(room, p) {
			all = append(all, Violation{Where: p.ImportPath, What: what})
		}
	}
	return all
}

// roomOf is "" for the module's root and what is outside of the module.
func roomOf(importPath string) string {
	room, _ := strings.CutPrefix(importPath, Module+"/")
	if room == importPath {
		return ""
	}
	return room
}

func checkPackage(room string, p Package) []string {
	if _, ok := rooms[room]; !ok {
		return []string{"has no room in the floor plan"}
	}
	var broken []string
	for _, name := range append(strings.Split(room, "/"), p.Name) {
		if slices.Contains(noNames, name) {
			broken = append(broken, "is named "+name+", which says nothing about what is inside")
		}
	}
	for _, i := range p.Imports {
		broken = append(broken, judge(i, room, ours, false)...)
	}
	for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
		broken = append(broken, judge(i, room, oursInTest, true)...)
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// judge looks at one import, of ours by the plan or of others by the fences.
func judge(imported, room string, plan func(from, to string) string, test bool) []string {
	if imported == Module {
		return []string{"imports the module's root"}
	}
	if to := roomOf(imported); to != "" {
		if _, ok := rooms[to]; !ok {
			return []string{"imports " + to + ", which has no room in the floor plan"}
		}
		if what := plan(room, to); what != "" {
			return []string{what}
		}
		return nil
	}
	var broken []string
	for _, f := range fences {
		if f.holds(imported) && !slices.Contains(f.rooms, room) && (!f.tests || !test) {
			broken = append(broken, fmt.Sprintf("imports %s, which is for %s only", imported, strings.Join(f.rooms, ", ")))
		}
	}
	return broken
}

func (f fence) holds(imported string) bool {
	return slices.ContainsFunc(f.libraries, func(lib string) bool {
		return imported == lib || strings.HasPrefix(imported, lib+"/")
	})
}

// ours judges an import between two rooms of the plan; "" is lawful.
func ours(from, to string) string {
	a, b := rooms[from], rooms[to]
	switch {
	case slices.Contains(alone, from):
		return "imports " + to + ", and should stand alone"
	case b == beside:
		if slices.Contains(visitors[to], from) {
			return ""
		}
		return "imports " + to + ", which is beside the house"
	case b == roof:
		return "imports " + to + ", which is main"
	case a == beside:
		return besides(from, to)
	case b > a:
		return "imports upward: " + to
	case a == b && !slices.Contains(neighbours[from], to):
		return "imports " + to + " on its own floor"
	case a == useCases && b == adapters:
		return "is a use case and imports the adapter " + to + "; it should declare a port"
	case a == faces && b == adapters:
		return "is a face and imports the adapter " + to
	default:
		return ""
	}
}

// besides lets the man pages reach the command tree, and keeps the testbed below it, so
// that every room can be tested with it.
func besides(from, to string) string {
	if from == "internal/testbed" && rooms[to] >= useCases {
		return "imports " + to + ", whose tests then cannot import it"
	}
	return ""
}

// oursInTest is milder: a test may put a use case on a real adapter, and stand on what
// is there for tests. It must not reach upward either, or the lower room could not be
// tested, nor taken out, without the upper one.
func oursInTest(from, to string) string {
	a, b := rooms[from], rooms[to]
	switch {
	case from == to || slices.Contains(testHelp, to) || a == beside && b != roof:
		return ""
	case b == beside:
		return "imports " + to + " in a test, which is no help for tests"
	case b > a:
		return "imports upward in a test: " + to
	default:
		return ""
	}
}

// isTest tells a test file by its name.
func isTest(file string) bool { return strings.HasSuffix(path.Base(file), "_test.go") }
