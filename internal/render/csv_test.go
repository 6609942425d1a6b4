package render_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"example.com/whctl/internal/render"
)

func TestCSVGuard(t *testing.T) {
	for in, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1+cmd|' /C calc'!A0": "'-1+cmd|' /C calc'!A0", "@SUM(A1)": "'@SUM(A1)", "-": "'-", "--1": "'--1",
		"\t=1": `'\t=1`, "\r=1": `'\r=1`, "\n=1": `'\n=1`, "＝1": "'＝1",
		"-1": "'-1", "-1500.25": "'-1500.25", "-1\n": `'-1\n`,
		"plain": "plain", "a=b": "a=b", "": "", `say "hi", you`: `say "hi", you`, "'=1": "'=1", "\u200b=1": `\u200b=1`, "\x1b[2J": `\x1b[2J`,
	} {
		out := show(t, render.Options{Format: "csv", NoHeaders: true}, []letter{{ID: "a", Tenant: in}})
		records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(records) != 1 || len(records[0]) != 5 {
			t.Fatalf("%q: records %q, %v", in, records, err)
		}
		if got := records[0][1]; got != want {
			t.Errorf("cell %q = %q, want %q", in, got, want)
		}
	}
}
