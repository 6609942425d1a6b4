package deliver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/whctl/internal/policy"
	"example.com/whctl/internal/work"
)

// table is a work table in memory: enough of one to drive a run through every turn.
type table struct {
	mu       sync.Mutex
	rows     []*row
	claims   int
	fail     func(call string) error // what a call answers with, if anything
	recorded chan work.Result
	claimed  chan int
	next     int             // seq of what is due again
	slow     time.Duration   // how long a claim takes
	writes   <-chan struct{} // closed: recording goes on; nil: it always does
	begun    time.Time
	surveys  int
	look     time.Duration // how long a survey takes
	known    bool          // the worker
	others   int           // workers
	waiting  bool          // the worker is
	rooms    map[int64]int // shares smaller than the cap
	health   map[int64]work.Health
	left     int  // how often the worker left
	endless  bool // what is due cannot be counted in time
	beats    []time.Time
	locked   bool // another worker is asking about every ticket
	forget   int  // how often more the worker is taken out before it asks for shares
}

type row struct {
	destination int64
	due         bool
	at          time.Time // when it becomes due; zero: due says all
	lease       bool      // live, of this run
	lost        bool      // leased by another, run out
	foreign     bool      // leased by another, live
	expired     bool
	suspect     bool // its last attempt was lost
	seq         int  // in the order of due times
	bytes       int
	attempts    int
	state       work.Move
	result      work.Result
}

func newTable(rows ...*row) *table {
	for i, r := range rows {
		r.seq = i
	}
	return &table{begun: time.Now(), health: map[int64]work.Health{}, rows: rows, recorded: make(chan work.Result, 10000), claimed: make(chan int, 10000)}
}

// due makes n due rows of a destination.
func due(destination int64, n int) []*row {
	rows := make([]*row, n)
	for i := range rows {
		rows[i] = &row{destination: destination, due: true}
	}
	return rows
}

func (t *table) failing(call string) error {
	if t.fail == nil {
		return nil
	}
	return t.fail(call)
}

// asOf is the table's clock: it goes as the test's does.
func (t *table) asOf() time.Time {
	return time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).Add(time.Since(t.begun))
}

func (t *table) Survey(context.Context) (work.Survey, error) {
	time.Sleep(t.look)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.surveys++
	seen := map[int64]bool{}
	out := work.Survey{AsOf: t.asOf()}
	for _, r := range t.rows {
		if !r.at.IsZero() {
			if r.due = !r.at.After(out.AsOf); !r.due && (out.NextDue.IsZero() || r.at.Before(out.NextDue)) {
				out.NextDue = r.at
			}
		}
		if r.due && !seen[r.destination] {
			seen[r.destination] = true
			suspects := slices.ContainsFunc(t.rows, func(o *row) bool { return o.destination == r.destination && o.suspect && o.due })
			out.Due = append(out.Due, work.Destination{ID: r.destination, Name: fmt.Sprint("d", r.destination), Suspects: suspects, Health: t.of(r.destination)})
		}
	}
	return out, t.failing("scan")
}

// of is the health of a destination.
func (t *table) of(destination int64) work.Health {
	h := t.health[destination]
	h.DestinationID = destination
	return h
}

func (t *table) Beat(_ context.Context, _ string, waiting bool) (int, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = waiting
	known := t.known
	t.known = true
	t.beats = append(t.beats, time.Now())
	return t.others, known, t.failing("beat")
}

func (t *table) Shares(_ context.Context, _ string, wants []work.Want) ([]work.Share, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forget > 0 {
		t.forget, t.known = t.forget-1, false
	}
	if !t.known {
		return nil, work.ErrNoWorker
	}
	var out []work.Share
	for _, w := range wants {
		room := w.Cap
		if most, ok := t.rooms[w.DestinationID]; ok {
			room = min(room, most)
		}
		out = append(out, work.Share{DestinationID: w.DestinationID, Room: room})
	}
	return out, t.failing("shares")
}

func (t *table) Judge(_ context.Context, trials []work.Trial, judge func(time.Time, work.Health, work.Trial) work.Health) ([]work.Health, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []work.Health
	for _, trial := range trials {
		h := judge(t.asOf(), t.of(trial.DestinationID), trial)
		t.health[trial.DestinationID] = h
		out = append(out, h)
	}
	return out, t.failing("judge")
}

func (t *table) Leave(context.Context, string, bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left++
	return t.failing("leave")
}

func (t *table) Claim(ctx context.Context, r work.ClaimRequest) (work.ClaimResult, error) {
	if ctx.Err() != nil {
		return work.ClaimResult{}, context.Cause(ctx) // as a claim that was broken off: nothing was stored
	}
	if t.slow > 0 {
		<-time.After(t.slow)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claims++
	if err := t.failing("claim"); err != nil {
		return work.ClaimResult{}, err
	}
	if !t.known {
		return work.ClaimResult{}, work.ErrNoWorker
	}
	var out []work.Claimed
	var healths []work.Health
	for _, a := range r.Asks {
		room := a.Room
		h := t.of(a.DestinationID)
		if a.Ticket && t.locked {
			continue
		}
		if a.Ticket {
			room = r.Admit(t.asOf(), h, room)
		} else if !h.Pause.At.IsZero() || h.Openings > 0 || h.HeldUntil.After(t.asOf()) {
			room = 0
		}
		before := len(out)
		for _, i := range t.inOrder() {
			row := t.rows[i]
			if room == 0 || row.destination != a.DestinationID || !row.due || row.lease || row.foreign || row.suspect != a.Suspects {
				continue
			}
			room--
			row.lease = true
			c := work.Claimed{ID: int64(i), AttemptID: r.AttemptIDs[len(out)], DestinationID: a.DestinationID, Generation: 1, Lost: row.lost, Suspect: row.suspect, Expired: row.expired, PayloadBytes: row.bytes}
			if row.lost {
				c.Holder = "other#1"
			} else {
				row.attempts++
			}
			c.Attempt = max(1, row.attempts)
			if row.bytes == 0 {
				c.Envelope.Payload = []byte("{}")
			}
			out = append(out, c)
		}
		if a.Ticket {
			taken := 0
			for _, c := range out[before:] {
				if !c.Lost && !c.Expired {
					taken++
				}
			}
			h = r.Spend(t.asOf(), h, taken)
			t.health[a.DestinationID] = h
			healths = append(healths, h)
		}
	}
	t.claimed <- len(out)
	return work.ClaimResult{Claimed: out, Health: healths}, nil
}

// inOrder is the places of the rows in the order of their due times.
func (t *table) inOrder() []int {
	places := make([]int, len(t.rows))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return t.rows[a].seq - t.rows[b].seq })
	return places
}

func (t *table) Payload(_ context.Context, id int64) ([]byte, error) {
	if err := t.failing("payload"); err != nil {
		return nil, err
	}
	return make([]byte, t.rows[id].bytes), nil
}

func (t *table) Record(_ context.Context, _ string, results []work.Result) ([]work.Fate, error) {
	if t.writes != nil {
		<-t.writes
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failing("record"); err != nil {
		return nil, err
	}
	for _, r := range results {
		row := t.rows[r.ID]
		row.lease, row.lost = false, false
		if r.Outcome.Class != "" {
			row.suspect = r.Outcome.Class == work.Lost
		}
		t.next++
		row.seq = len(t.rows) + t.next
		row.state, row.result = r.Move, r
		row.due = r.Move == work.MoveScheduled && r.Delay == 0 || r.Move == work.MoveRelease
		t.recorded <- r
	}
	return make([]work.Fate, len(results)), nil
}

func (t *table) Backlog(ctx context.Context) ([]work.Backlog, error) {
	if t.endless {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := map[int64]int64{}
	for _, r := range t.rows {
		if r.due && !r.lease && !r.foreign {
			n[r.destination]++
		}
	}
	var out []work.Backlog
	for _, id := range slices.Sorted(maps.Keys(n)) {
		out = append(out, work.Backlog{DestinationID: id, Due: n[id], OldestAge: time.Minute})
	}
	return out, t.failing("backlog")
}

// answering is what a receiver does with each request.
type answering func(ctx context.Context, c work.Claimed) work.Outcome

func ok(context.Context, work.Claimed) work.Outcome {
	return work.Outcome{Class: work.OK, Status: 200, Latency: time.Millisecond}
}

func down(context.Context, work.Claimed) work.Outcome {
	return work.Outcome{Class: work.Unavailable, Status: 503}
}

// options are those of a run with places places.
func options(places int, answer answering) Options {
	p := policy.Default()
	p.Body = work.BodyRaw
	return Options{
		Owner: "w#1", Places: places, Grace: time.Minute, Random: func() float64 { return 0 }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Endpoint: func(work.Destination) (Endpoint, error) {
			return Endpoint{Policy: p, Send: func(ctx context.Context, c work.Claimed, _ []byte, _ time.Duration) work.Outcome {
				return answer(ctx, c)
			}}, nil
		},
	}
}

// left is the number of due deliveries that a summary tells.
func left(s Summary) int64 {
	if s.DueRemaining == nil {
		return -1
	}
	return *s.DueRemaining
}

func once(t *testing.T, ctx context.Context, store *table, o Options) Summary {
	t.Helper()
	sum, err := Once(ctx, store, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := sum.Delivered + sum.Retried + sum.Dead + sum.Cancelled + sum.Released + sum.Late; got != sum.Claimed {
		t.Errorf("claimed %d, but its parts add up to %d: %+v", sum.Claimed, got, sum)
	}
	for i, r := range store.rows {
		if r.lease {
			t.Errorf("row %d is left leased", i)
		}
	}
	return sum
}
