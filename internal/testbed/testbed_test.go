package testbed_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/whctl/internal/testbed"
)

func TestMain(m *testing.M) {
	code := testbed.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
