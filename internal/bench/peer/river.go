package peer

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq" // the driver of the comparison, and of the look at the end
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The settings of River's own benchmark. By default it fetches ten times a second.
const (
	riverWorkers  = 2000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	// riverConns are lib/pq's connections; pgx chooses its own number.
	riverConns = 20
	seedStep   = 5000
	lookEvery  = 5 * time.Millisecond
)

// hook is a job. Its payload is JSON in JSON, as a team would do it.
type hook struct {
	Destination int             `json:"destination"`
	ID          string          `json:"id"`
	Subject     string          `json:"subject"`
	Payload     json.RawMessage `json:"payload"`
}

// Kind is its name in River's table.
func (hook) Kind() string { return "hook" }

// hooks works the jobs.
type hooks struct {
	river.WorkerDefaults[hook]
	poster *poster
	to     []*url.URL // by destination
	sent   atomic.Int64
	failed atomic.Int64
}

// Work sends one.
func (h *hooks) Work(ctx context.Context, j *river.Job[hook]) error {
	a := j.Args
	if err := h.poster.post(ctx, h.to[a.Destination%len(h.to)], a.ID, Body(a.ID, a.Subject, a.Payload)); err != nil {
		h.failed.Add(1)
		return err
	}
	h.sent.Add(1)
	return nil
}

// River says what it works on.
type River struct {
	DB           string // URL of a database of its own
	PQ           bool   // over lib/pq instead of pgx
	To           string // the receiver's URL
	Jobs         int
	Destinations int
	Size         int // of a payload, in bytes
}

// Seed makes River's tables and puts all jobs there.
func (r River) Seed(ctx context.Context) error {
	return r.connect(ctx,
		func(d riverdriver.Driver[pgx.Tx]) error { return seedAll(ctx, d, r) },
		func(d riverdriver.Driver[*sql.Tx]) error { return seedAll(ctx, d, r) })
}

// Work works all jobs. Its time ends when the last job's end is written, as whctl's does.
func (r River) Work(ctx context.Context) (done Done, err error) {
	err = r.connect(ctx,
		func(d riverdriver.Driver[pgx.Tx]) (err error) { done, err = workAll(ctx, d, r); return err },
		func(d riverdriver.Driver[*sql.Tx]) (err error) { done, err = workAll(ctx, d, r); return err })
	return done, err
}

func (r River) connect(ctx context.Context, onPGX func(riverdriver.Driver[pgx.Tx]) error, onPQ func(riverdriver.Driver[*sql.Tx]) error) error {
	if !r.PQ {
		pool, err := pgxpool.New(ctx, r.DB)
		if err != nil {
			return err
		}
		defer pool.Close()
		return onPGX(riverpgxv5.New(pool))
	}
	db, err := sql.Open("postgres", r.DB)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(riverConns)
	db.SetMaxIdleConns(riverConns)
	return onPQ(riverdatabasesql.New(db))
}

func seedAll[T any](ctx context.Context, driver riverdriver.Driver[T], r River) error {
	m, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for from := 0; from < r.Jobs; from += seedStep {
		var jobs []river.InsertManyParams
		for n := from; n < min(from+seedStep, r.Jobs); n++ {
			jobs = append(jobs, river.InsertManyParams{Args: hook{
				Destination: n % r.Destinations, ID: fmt.Sprintf("%036d", n), Subject: fmt.Sprintf("s%010d", n),
				Payload: json.RawMessage(Payload(n, r.Size)),
			}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func workAll[T any](ctx context.Context, driver riverdriver.Driver[T], r River) (Done, error) {
	h := &hooks{poster: newPoster(riverWorkers)}
	for i := range r.Destinations {
		u, err := url.Parse(r.To + "/d/" + strconv.Itoa(i))
		if err != nil {
			return Done{}, err
		}
		h.to = append(h.to, u)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, h)
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return Done{}, err
	}
	look, err := sql.Open("postgres", r.DB)
	if err != nil {
		return Done{}, err
	}
	defer func() { _ = look.Close() }()
	begun := time.Now()
	if err := client.Start(ctx); err != nil {
		return Done{}, err
	}
	if err := h.finished(ctx, look, r.Jobs); err != nil {
		return Done{}, err
	}
	done := Done{r.Jobs, time.Since(begun).Seconds()}
	return done, client.Stop(ctx)
}

// finished waits until all jobs were sent and their ends are written.
func (h *hooks) finished(ctx context.Context, db *sql.DB, jobs int) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for range tick.C {
		if n := h.failed.Load(); n > 0 {
			return fmt.Errorf("%d requests failed", n)
		}
		if h.sent.Load() < int64(jobs) {
			continue
		}
		var open bool
		err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE state <> 'completed')`).Scan(&open)
		if err != nil || !open {
			return err
		}
	}
	return nil
}

// Payload is JSON of size bytes, as the rows of whctl have it.
func Payload(n, size int) []byte {
	const frame = len(`{"n":"0000000000","x":""}`)
	return fmt.Appendf(nil, `{"n":"%010d","x":"%0*d"}`, n, max(1, size-frame), n)
}
