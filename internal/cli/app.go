package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"example.com/whctl/internal/config"
	"example.com/whctl/internal/console"
	"example.com/whctl/internal/pgstore"
	"example.com/whctl/internal/render"
)

// app is what every command is built with.
type app struct {
	io       *console.Streams
	version  string
	readFile func(name string) ([]byte, error) // of configuration; nil: the file system
	// completeWithin bounds what a key press waits for; defaultPatience where 0.
	completeWithin time.Duration
	global         globalFlags
}

// globalFlags are the flags that every command has.
type globalFlags struct {
	config          string
	databaseURL     string
	databaseURLFile string
	schema          string
	output          string
	noHeaders       bool
	jq              string
	logFormat       string
	logLevel        string
	quiet           bool
}

// loadConfig reads the configuration.
func (a *app) loadConfig() (*config.Config, error) {
	flags := map[string]string{}
	for path, value := range map[string]string{"database.url": a.global.databaseURL, "database.url_file": a.global.databaseURLFile} {
		if value != "" {
			flags[path] = value
		}
	}
	return config.Load(config.Options{Path: a.global.config, LookupEnv: a.io.LookupEnv, ReadFile: a.readFile, Flags: flags})
}

// storeNeeds says how a command uses the database.
type storeNeeds struct {
	ioTimeout time.Duration // one wait for the server; pgstore's default where 0
	conns     int
	anySchema bool // do not ask for a schema that fits
}

// openStore connects and, unless told otherwise, refuses a schema that does not fit.
func (a *app) openStore(ctx context.Context, c *config.Config, n storeNeeds) (*pgstore.Store, error) {
	s, err := pgstore.Open(ctx, a.storeOptions(c, n))
	if err != nil || n.anySchema {
		return s, err
	}
	if err := s.CheckSchema(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (a *app) storeOptions(c *config.Config, n storeNeeds) pgstore.Options {
	return pgstore.Options{
		URL: c.Database.URL, Schema: a.global.schema, StatementTimeout: c.Database.StatementTimeout, IOTimeout: n.ioTimeout, MaxConns: n.conns,
	}
}

// logger is the log on stderr. A quiet run speaks of what went wrong only.
func (a *app) logger() (*slog.Logger, error) {
	level := a.global.logLevel
	if level == "" && a.global.quiet {
		level = "warn"
	}
	if level == "" {
		level = "info"
	}
	return a.io.Logger(a.global.logFormat, level)
}

// renderOptions are the output flags. They are checked before anything is touched.
func (a *app) renderOptions() (render.Options, error) {
	o := render.Options{Format: a.global.output, NoHeaders: a.global.noHeaders, JQ: a.global.jq, Color: a.io.Color(console.Stdout)}
	if a.io.OutTTY {
		o.Width = a.io.Width()
	}
	return o, o.Validate()
}

// operator is who acts: the flag, else WHCTL_OPERATOR. Nothing else is guessed, since
// it goes on record.
func (a *app) operator(flag string) string {
	if flag != "" {
		return flag
	}
	name, _ := a.io.LookupEnv("WHCTL_OPERATOR")
	return name
}

func (a *app) warn(format string, args ...any) {
	a.io.Say("whctl: " + fmt.Sprintf(format, args...))
}
