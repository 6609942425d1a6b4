package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/whctl/internal/work"
)

// alive is how long the loop of a worker may take for one turn: several times as long as
// an idle one, and as the database is waited for.
const alive = time.Minute

// lastSuccess is the one gauge that a file keeps from run to run.
const lastSuccess = "whctl_last_success_timestamp_seconds"

// Metrics are those of one run or worker.
type Metrics struct {
	registry    *prometheus.Registry
	attempts    *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	latency     prometheus.Histogram
	claims      prometheus.Counter
	inFlight    prometheus.Gauge
	held        *prometheus.GaugeVec
	due         prometheus.Gauge
	oldestDue   prometheus.Gauge
	lastSuccess prometheus.Gauge

	counted chan struct{} // a token when what is due has been counted
	began   time.Time
	turned  atomic.Int64 // nanoseconds after began at which the loop turned last
}

// New makes the metrics of a run of this version, all at 0. That of the last success is
// for bounded runs: a worker ends but once.
func New(version string, bounded bool) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	claims := counter("whctl_claims_total", "Claims of due deliveries, also such as found none.")
	inFlight := gauge("whctl_in_flight", "Deliveries claimed and not settled.")
	due := gauge("whctl_due_deliveries", "Deliveries that are due and not leased, held ones among them, when they were counted last.")
	oldest := gauge("whctl_oldest_due_age_seconds", "How long the oldest of them had been due.")
	last := gauge(lastSuccess, "When a run last ended as it should.")
	build := gauge("whctl_build_info", "1, with the version of the program.", "version")
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		attempts:   counter("whctl_attempts_total", "Attempts recorded, by the class of their outcome.", "class"),
		deliveries: counter("whctl_deliveries_total", "Claimed deliveries settled, by what became of them.", "result"),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "whctl_attempt_duration_seconds", Help: "From the beginning of a request to its answer or failure.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
		claims: claims.WithLabelValues(), inFlight: inFlight.WithLabelValues(),
		held: gauge("whctl_held_destinations", "Destinations with due deliveries that are held back, by why.", "reason"),
		due:  due.WithLabelValues(), oldestDue: oldest.WithLabelValues(), lastSuccess: last.WithLabelValues(),
		counted: make(chan struct{}, 1), began: time.Now(),
	}
	build.WithLabelValues(version).Set(1)
	for _, c := range work.Classes() {
		m.attempts.WithLabelValues(string(c))
	}
	for _, e := range work.Endings() {
		m.deliveries.WithLabelValues(string(e))
	}
	m.Held(nil)
	m.registry.MustRegister(m.attempts, m.deliveries, m.latency, claims, inFlight, m.held, due, oldest, build)
	if bounded {
		m.registry.MustRegister(last)
	}
	return m
}

// Turned notes that the loop is alive.
func (m *Metrics) Turned() { m.turned.Store(int64(time.Since(m.began))) }

// Alive says whether the loop has turned lately. A database out of reach does not stop
// it, so that nobody restarts a worker for that.
func (m *Metrics) Alive() bool {
	return time.Since(m.began)-time.Duration(m.turned.Load()) < alive
}

// Claimed counts a claim of n deliveries.
func (m *Metrics) Claimed(n int) {
	m.claims.Inc()
	m.inFlight.Add(float64(n))
}

// Recorded counts a claimed delivery that is settled.
func (m *Metrics) Recorded(class work.Class, ending work.Ending, latency time.Duration) {
	m.inFlight.Dec()
	m.deliveries.WithLabelValues(string(ending)).Inc()
	if class != "" {
		m.attempts.WithLabelValues(string(class)).Inc()
	}
	if latency > 0 {
		m.latency.Observe(latency.Seconds())
	}
}

// Held notes how many destinations are held back, by why.
func (m *Metrics) Held(destinations map[work.Hold]int) {
	for _, why := range work.Holds() {
		m.held.WithLabelValues(string(why)).Set(float64(destinations[why]))
	}
}

// Backlog notes what is due, the last part of a count, and has the file written.
func (m *Metrics) Backlog(due int64, oldest time.Duration) {
	m.due.Set(float64(due))
	m.oldestDue.Set(oldest.Seconds())
	select {
	case m.counted <- struct{}{}:
	default:
	}
}

// Succeeded notes when all went as it should, by the database's clock.
func (m *Metrics) Succeeded(at time.Time) {
	m.lastSuccess.Set(float64(at.UnixMilli()) / 1000)
}
