package testbed_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/whctl/internal/testbed"
)

func TestMain(m *testing.M) {
	code := testbed.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}
