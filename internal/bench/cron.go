package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"example.com/whctl/internal/bench/gauge"
	"example.com/whctl/internal/bench/stage"
)

// cronRuns are more than rounds: each takes a moment only.
const cronRuns = 15

// cron measures what a crontab does every minute: from exec to the first request, which
// comes after the first claim's commit, and a run that finds nothing due.
func (l *lab) cron(ctx context.Context) error {
	url, requests, stop, err := l.doorbell(ctx)
	if err != nil {
		return err
	}
	defer stop()
	d, err := l.base(ctx, 0, 0)
	if err != nil {
		return err
	}
	if err := d.Destinations(ctx, url, 1, 0); err != nil {
		return err
	}
	first := gauge.Row{What: "exec to first request (which follows the first claim)", Unit: "ms", Bar: gauge.AtMost(25, 10)}
	claim := gauge.Row{What: "exec to the beginning of the first claim", Unit: "ms"}
	idle := gauge.Row{What: "a run that finds nothing due: its processor time", Unit: "ms"}
	whole := gauge.Row{What: "a run that finds nothing due: from exec to its end", Unit: "ms"}
	for range cronRuns {
		if err := d.Fill(ctx, stage.Rows{N: 1, Destinations: 1, Size: payload, Age: hour}); err != nil {
			return err
		}
		run, ended, err := l.spend(ctx, 1, l.program.Command(ctx, d, "deliver", "--once", "--quiet"))
		if err != nil {
			return err
		}
		var claimed time.Time // by the database's clock, which is this machine's
		if err := d.QueryRowContext(ctx, `SELECT max(started_at) FROM whctl.attempts`).Scan(&claimed); err != nil {
			return err
		}
		begun := ended[0].Began // what the measuring itself does first is not the program's
		add(&first, (<-requests).Sub(begun), run)
		add(&claim, claimed.Sub(begun), run)
		if run, _, err = l.spend(ctx, 1, l.program.Command(ctx, d, "deliver", "--once", "--quiet")); err != nil {
			return err
		}
		add(&idle, run.Program, run)
		add(&whole, run.Wall, run)
	}
	for _, row := range []gauge.Row{first, claim, idle, whole} {
		l.table.Add(row)
	}
	return nil
}

// add adds a duration in ms.
func add(row *gauge.Row, d time.Duration, run gauge.Run) {
	row.Values = append(row.Values, d.Seconds()*1000)
	row.Other = append(row.Other, run.Other)
}

// doorbell is a receiver in this process, which tells when each request came.
func (l *lab) doorbell(ctx context.Context) (url string, requests <-chan time.Time, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.7:0") // the kernel remembers how fast an address is: not the one of the tests
	if err != nil {
		return "", nil, nil, err
	}
	rings := make(chan time.Time, 1)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		at := time.Now()
		_, _ = io.Copy(io.Discard, req.Body)
		rings <- at
	})}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), rings, func() { _ = server.Close() }, nil
}
