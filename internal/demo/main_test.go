package demo

import (
	"os"
	"testing"

	"example.com/whctl/internal/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }
