package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"example.com/whctl/internal/bench/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// start takes a part, as the program starts itself for the processes that have to stand
// apart, or measures.
func start(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "play" {
		return play(ctx, args[1:])
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.whctl, "whctl", "bin/whctl", "the program to measure")
	flags.IntVar(&o.rounds, "rounds", 3, "runs of each; medians are told")
	flags.BoolVar(&o.quick, "quick", false, "fewer rows, and without what takes long: for a look, not for quoting")
	only := flags.String("only", ".", "a regular expression of the measures to make: "+names())
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.rounds < 1 {
		return errors.New("want flags only, and at least one round")
	}
	return measure(ctx, o)
}

// play is a part in a process of its own. What it is to do comes as JSON.
func play(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "receiver" {
		return peer.Receive(ctx, os.Stdin, os.Stdout)
	}
	if len(args) != 2 {
		return errors.New("play: want a part and its JSON")
	}
	var done peer.Done
	var err error
	switch text := []byte(args[1]); args[0] {
	case "post":
		var p peer.Ceiling
		if err = json.Unmarshal(text, &p); err == nil {
			done, err = p.Post(ctx)
		}
	case "river":
		var r peer.River
		if err = json.Unmarshal(text, &r); err == nil {
			done, err = r.Work(ctx)
		}
	default:
		err = fmt.Errorf("play: no part %q", args[0])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}
