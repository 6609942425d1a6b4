// Command whctl sends webhooks from a Postgres work table.
package main

import (
	"os"

	"example.com/whctl/internal/cli"
	"example.com/whctl/internal/console"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(cli.Main(console.System(), version, os.Args[1:]))
}
