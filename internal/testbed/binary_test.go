package testbed_test

import (
	"strings"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestBinaryIsWhctlOrTheOneNamed(t *testing.T) {
	if got := testbed.Run(t, testbed.Cmd{Args: []string{"version"}}); got.Code != 0 || !strings.Contains(got.Stdout, "VERSION") {
		t.Errorf("%+v", got)
	}
	t.Setenv(testbed.BinaryEnv, "/bin/echo")
	if got := testbed.Run(t, testbed.Cmd{Args: []string{"hello"}}); got.Stdout != "hello\n" {
		t.Errorf("%+v", got)
	}
}
