package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"

	"example.com/whctl/internal/localpg"
	"example.com/whctl/internal/testbed"
)

// aheadBy moves the bench to a server whose clock is some seconds ahead; everything
// else has the right time.
func (b *theBench) aheadBy(t *testing.T, seconds int) {
	t.Helper()
	libs, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(libs) == 0 {
		t.Fatal("libfaketime is missing; run: make postgres")
	}
	server, err := localpg.Start(t.Context(), localpg.Options{Env: []string{
		"LD_PRELOAD=" + libs[0], fmt.Sprintf("FAKETIME=+%ds", seconds), "FAKETIME_DONT_RESET=1", "DONT_FAKE_MONOTONIC=1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.url = server.URL("postgres")
	admin, err := sqlx.ConnectContext(t.Context(), "postgres", b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	b.db = &testbed.Database{Name: "postgres", URL: b.url, AdminURL: b.url, Admin: admin}
	b.must(0, "migrate", "up")
}
