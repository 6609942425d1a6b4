package archtest

// Module is the import path that the rooms' names are relative to.
const Module = "example.com/whctl"

// floor is a storey of the house; a higher one may import a lower one.
type floor int

const (
	ground   floor = iota // nouns and decisions: pure
	adapters              // I/O, no decisions
	useCases              // each declares the ports it needs
	faces                 // no SQL, no HTTP
	wiring                // the command tree and the playground
	roof                  // main
	beside                // tests' and builders' help; each has its own visitors
)

// rooms is the floor plan. What is a module of its own, such as the benchmarks, has no
// room: nothing of the house can import it.
var rooms = map[string]floor{
	"cmd/whctl": roof,

	"internal/cli":  wiring,
	"internal/demo": wiring,

	"internal/tui":     faces,
	"internal/render":  faces,
	"internal/console": faces,

	"internal/deliver":   useCases,
	"internal/sweep":     useCases,
	"internal/dlq":       useCases,
	"internal/enqueue":   useCases,
	"internal/reconcile": useCases,
	"internal/health":    useCases,

	"internal/pgstore":   adapters,
	"internal/httpsend":  adapters,
	"internal/archive":   adapters,
	"internal/config":    adapters,
	"internal/telemetry": adapters,

	"internal/work":   ground,
	"internal/policy": ground,
	"internal/redact": ground,

	"internal/archtest": beside,
	"internal/checker":  beside,
	"internal/localpg":  beside,
	"internal/mangen":   beside,
	"internal/testbed":  beside,
	"migrations":        beside,
}

// neighbours are the imports allowed within a floor.
var neighbours = map[string][]string{
	"internal/cli":     {"internal/demo"},
	"internal/tui":     {"internal/render", "internal/console"},
	"internal/console": {"internal/render"},
	"internal/policy":  {"internal/work"},
}

// visitors are the rooms whose own code may import a room beside the house. Every test
// may import those of testHelp.
var visitors = map[string][]string{
	"internal/archtest": {},
	"internal/checker":  {"internal/demo", "internal/testbed"},
	"internal/localpg":  {"internal/demo", "internal/testbed"},
	"internal/mangen":   {},
	"internal/testbed":  {},
	"migrations":        {"internal/pgstore", "internal/testbed"},
}

var testHelp = []string{"internal/testbed", "internal/checker", "internal/localpg", "migrations"}

// alone are the rooms beside the house that import nothing of ours: the checker so that
// it cannot share a mistake with what it checks.
var alone = []string{"internal/archtest", "internal/checker", "internal/localpg", "migrations"}

// fence keeps libraries in rooms. Tests may climb it where tests is true.
type fence struct {
	libraries []string // import paths, with all below them
	rooms     []string
	tests     bool
}

var fences = []fence{
	{
		libraries: []string{"database/sql", "github.com/jmoiron/sqlx", "github.com/lib/pq", "github.com/pressly/goose"},
		rooms: []string{
			"internal/pgstore", "internal/localpg", "internal/demo", "internal/checker", "internal/testbed",
		},
		tests: true,
	},
	{
		// The client belongs to httpsend; the others listen.
		libraries: []string{"net/http"},
		rooms: []string{
			"internal/httpsend", "internal/demo", "internal/telemetry", "internal/testbed",
		},
		tests: true,
	},
	{libraries: []string{"github.com/olekukonko/tablewriter"}, rooms: []string{"internal/render"}},
	{libraries: []string{"github.com/theory/jsonpath"}, rooms: []string{"internal/redact"}},
	{libraries: []string{"github.com/klauspost/compress"}, rooms: []string{"internal/archive"}},
	{
		libraries: []string{"github.com/charmbracelet/bubbletea", "github.com/charmbracelet/bubbles"},
		rooms:     []string{"internal/tui", "internal/cli"},
	},
	{libraries: []string{"github.com/spf13/cobra"}, rooms: []string{"internal/cli", "internal/mangen"}},
	{libraries: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"}, rooms: []string{"internal/telemetry"}},
	{
		// Durations such as 90d.
		libraries: []string{"github.com/prometheus/common"},
		rooms:     []string{"internal/telemetry", "internal/config", "internal/cli"},
	},
	{
		// It would bring its flags into the program.
		libraries: []string{"testing"},
		rooms:     []string{"internal/testbed"},
		tests:     true,
	},
}

// noNames are names that say nothing about what is inside.
var noNames = []string{"util", "common", "helpers", "models", "types", "base"}

// sqlFiles are where SQL may stand, besides tests: rooms, or files by how their path
// begins. Of the demo it is the receiver, a program of its own with its own tables, and
// its books, in which both sides are compared.
var sqlFiles = []string{
	"internal/pgstore/", "internal/localpg/", "internal/checker/", "internal/testbed/",
	"internal/demo/receiver", "migrations/",
}

// clocks are the files below the command tree that may read the clock, and what for. The
// instants that decide come from the database; work and policy have no clock at all.
var clocks = map[string]string{
	"internal/console/progress.go":  "how long the work takes, for the rate and the time left",
	"internal/deliver/backlog.go":   "how long ago what is due was counted, and how long that took",
	"internal/deliver/claim.go":     "how long ago it was looked who has work, and when a claim was sent, from which its leases are counted",
	"internal/deliver/clock.go":     "how long ago the database told the time",
	"internal/deliver/run.go":       "how long the run takes, against --max-time",
	"internal/deliver/send.go":      "what is left of a lease, counted from before the claim was sent",
	"internal/deliver/settle.go":    "how long ago a destination was given up by a worker that stays",
	"internal/deliver/shares.go":    "how long ago the others were told of this run",
	"internal/deliver/lanes.go":     "how long ago it was looked who has work",
	"internal/deliver/ready.go":     "how long a destination has been held by a fault",
	"internal/deliver/waits.go":     "how long a run has waited for a share, and how long ago it was looked who has work",
	"internal/httpsend/config.go":   "the one wall clock, of signatures and dates in answers, where none is given",
	"internal/httpsend/exchange.go": "what is left of one request's time",
	"internal/httpsend/failure.go":  "whether the request's time was over when it failed",
	"internal/httpsend/idle.go":     "how long a connection has been idle",
	"internal/httpsend/probe.go":    "how long the stages of an attempt take",
	"internal/httpsend/sender.go":   "how long an attempt takes",
	"internal/httpsend/trail.go":    "how long the stages of an attempt take",
	"internal/pgstore/dialer.go":    "deadlines of the connection, which are instants to the net package",
	"internal/pgstore/line.go":      "how long to wait for bytes, which is an instant to the net package",
	"internal/pgstore/prepared.go":  "how old a plan is",
	"internal/sweep/run.go":         "how long the run takes, against --max-time, and how long a batch takes, by which the next one is sized",
	"internal/telemetry/metrics.go": "how long ago the loop has turned",
}
